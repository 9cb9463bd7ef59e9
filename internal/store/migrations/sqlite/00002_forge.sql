-- What the local forge keeps. The documents are the forge's own; the columns are what it searches by.

-- +goose Up
CREATE TABLE forge_repository (
  name       TEXT PRIMARY KEY,
  updated_at INTEGER NOT NULL,
  doc        BLOB NOT NULL
);

CREATE TABLE forge_pull_request (
  repository TEXT NOT NULL,
  number     INTEGER NOT NULL,
  state      TEXT NOT NULL,
  head       TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  doc        BLOB NOT NULL,
  PRIMARY KEY (repository, number)
);
CREATE INDEX forge_pull_request_head  ON forge_pull_request (repository, head, number);
CREATE INDEX forge_pull_request_state ON forge_pull_request (repository, state, number);

-- Checks are set on commits, which no pull request may know yet.
CREATE TABLE forge_status (
  repository TEXT NOT NULL,
  commit_sha TEXT NOT NULL,
  context    TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  doc        BLOB NOT NULL,
  PRIMARY KEY (repository, commit_sha, context)
);

-- +goose Down
DROP TABLE forge_status;
DROP TABLE forge_pull_request;
DROP TABLE forge_repository;
