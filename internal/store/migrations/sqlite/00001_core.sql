-- Times are Unix nanoseconds in UTC, 0 for none. Documents are JSON as package promo writes it.

-- +goose Up
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- Numbers that are handed out once and never again.
CREATE TABLE counter (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE server_key (
  name TEXT PRIMARY KEY,
  key  BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE definition (
  kind       TEXT NOT NULL,
  project    TEXT NOT NULL,
  name       TEXT NOT NULL,
  file       TEXT NOT NULL,
  line       INTEGER NOT NULL,
  source     BLOB NOT NULL,
  hash       TEXT NOT NULL,
  generation INTEGER NOT NULL,
  updated_by TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (kind, project, name)
);
CREATE INDEX definition_project ON definition (project, kind, name);

CREATE TABLE plan (
  hash TEXT PRIMARY KEY,
  doc  BLOB NOT NULL
);

-- One row a promotion; its document is the one of its newest attempt.
CREATE TABLE promotion (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  id          TEXT NOT NULL UNIQUE,
  project     TEXT NOT NULL,
  pipeline    TEXT NOT NULL,
  service     TEXT NOT NULL,
  number      INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  sequence    INTEGER NOT NULL,
  phase       TEXT NOT NULL,
  active      INTEGER NOT NULL,
  plan_hash   TEXT NOT NULL,
  started_at  INTEGER NOT NULL,
  finished_at INTEGER NOT NULL
);
CREATE INDEX promotion_project  ON promotion (project, seq);
CREATE INDEX promotion_pipeline ON promotion (project, pipeline, seq);
CREATE INDEX promotion_service  ON promotion (project, service, seq);
CREATE INDEX promotion_phase    ON promotion (phase, seq);
CREATE INDEX promotion_active   ON promotion (seq) WHERE active = 1;

CREATE TABLE promotion_attempt (
  promotion TEXT NOT NULL REFERENCES promotion (id),
  attempt   INTEGER NOT NULL,
  sequence  INTEGER NOT NULL,
  doc       BLOB NOT NULL,
  PRIMARY KEY (promotion, attempt)
);

CREATE TABLE promotion_environment (
  environment TEXT NOT NULL,
  seq         INTEGER NOT NULL REFERENCES promotion (seq),
  PRIMARY KEY (environment, seq)
) WITHOUT ROWID;

CREATE TABLE rollback (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  id          TEXT NOT NULL UNIQUE,
  project     TEXT NOT NULL,
  service     TEXT NOT NULL,
  environment TEXT NOT NULL,
  number      INTEGER NOT NULL,
  sequence    INTEGER NOT NULL,
  phase       TEXT NOT NULL,
  active      INTEGER NOT NULL,
  started_at  INTEGER NOT NULL,
  doc         BLOB NOT NULL
);
CREATE INDEX rollback_place  ON rollback (project, service, environment, seq);
CREATE INDEX rollback_active ON rollback (seq) WHERE active = 1;

CREATE TABLE known_good (
  seq         INTEGER PRIMARY KEY AUTOINCREMENT,
  project     TEXT NOT NULL,
  service     TEXT NOT NULL,
  environment TEXT NOT NULL,
  commit_sha  TEXT NOT NULL,
  version     TEXT NOT NULL,
  promotion   TEXT NOT NULL,
  at          INTEGER NOT NULL,
  known_good  INTEGER NOT NULL,
  pinned      INTEGER NOT NULL,
  UNIQUE (project, service, environment, commit_sha, promotion)
);
CREATE INDEX known_good_place ON known_good (project, service, environment, seq);

CREATE TABLE hold (
  project     TEXT NOT NULL,
  service     TEXT NOT NULL,
  environment TEXT NOT NULL,
  reason      TEXT NOT NULL,
  set_by      TEXT NOT NULL,
  at          INTEGER NOT NULL,
  PRIMARY KEY (project, service, environment)
);

CREATE TABLE blob (
  digest     TEXT PRIMARY KEY,
  media_type TEXT NOT NULL,
  at         INTEGER NOT NULL,
  data       BLOB NOT NULL
);

CREATE TABLE decision (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL UNIQUE,
  at         INTEGER NOT NULL,
  project    TEXT NOT NULL,
  sets       TEXT NOT NULL,
  event      TEXT NOT NULL,
  subject    TEXT NOT NULL,
  decided_by TEXT NOT NULL,
  input_hash TEXT NOT NULL,
  input      TEXT NOT NULL,
  deny       TEXT NOT NULL,
  warn       TEXT NOT NULL,
  denied     INTEGER NOT NULL
);
CREATE INDEX decision_project ON decision (project, seq);
CREATE INDEX decision_subject ON decision (subject, seq);

-- Append-only and hash-chained: hash covers the entry and the hash before it.
CREATE TABLE audit (
  seq     INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  who     TEXT NOT NULL,
  action  TEXT NOT NULL,
  kind    TEXT NOT NULL,
  subject TEXT NOT NULL,
  project TEXT NOT NULL,
  detail  TEXT NOT NULL,
  prev    TEXT NOT NULL,
  hash    TEXT NOT NULL
);
CREATE INDEX audit_project ON audit (project, seq);
CREATE INDEX audit_subject ON audit (kind, subject, seq);
-- The last entry once more, so that a cut tail is seen too.
CREATE TABLE audit_head (
  one  INTEGER PRIMARY KEY CHECK (one = 1),
  seq  INTEGER NOT NULL,
  hash TEXT NOT NULL
);
-- +goose StatementBegin
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
-- +goose StatementEnd

CREATE TABLE agent (
  name            TEXT PRIMARY KEY,
  credential_hash TEXT NOT NULL,
  enrolment_hash  TEXT NOT NULL,
  enrolment_until INTEGER NOT NULL,
  projects        TEXT NOT NULL,
  capabilities    TEXT NOT NULL,
  version         TEXT NOT NULL,
  created_by      TEXT NOT NULL,
  created_at      INTEGER NOT NULL,
  revoked_at      INTEGER NOT NULL,
  last_seen_at    INTEGER NOT NULL
);
CREATE UNIQUE INDEX agent_credential ON agent (credential_hash) WHERE credential_hash <> '';
CREATE UNIQUE INDEX agent_enrolment  ON agent (enrolment_hash)  WHERE enrolment_hash <> '';

CREATE TABLE token (
  hash       TEXT PRIMARY KEY,
  name       TEXT NOT NULL,
  principal  TEXT NOT NULL,
  role       TEXT NOT NULL,
  project    TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  UNIQUE (principal, name)
);

-- +goose Down
DROP TABLE token;
DROP TABLE agent;
DROP TRIGGER audit_no_delete;
DROP TRIGGER audit_no_update;
DROP TABLE audit_head;
DROP TABLE audit;
DROP TABLE decision;
DROP TABLE blob;
DROP TABLE hold;
DROP TABLE known_good;
DROP TABLE rollback;
DROP TABLE promotion_environment;
DROP TABLE promotion_attempt;
DROP TABLE promotion;
DROP TABLE plan;
DROP TABLE definition;
DROP TABLE server_key;
DROP TABLE counter;
DROP TABLE meta;
