// Package store holds the words of what Davit keeps beside Git and the workflows: definitions as applied, the
// read model of promotions and rollbacks, known-good commits, policy decisions, the audit, agents and tokens.
// It is not the truth of a run (the workflow is) nor of a release (Git is): it is what pages and REST read.
//
// The databases are subpackages: sqlite, later postgres. Both pass the one suite in storetest. Consumers declare
// the few methods they need as their own interface. Everything a method acknowledged survives a kill -9.
//
// Errors are *promo.Error: NotFound for a thing that is not there, Conflict for a lost comparison, Configuration
// for input that can never be kept or a database of another version, Internal for trouble of the database
// itself (ErrFull and ErrReadOnly tell the two that a person must see to).
//
// Start reading at sqlite.Open and storetest.Store, the list of all methods.
package store

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// Bounds of what the store takes.
const (
	// MaxBlob is the largest blob in bytes: a diff of a big change, a page of logs.
	MaxBlob = 4 << 20
	// MaxDocument is the largest definition, plan or promotion in bytes; a definition's file is at most 1 MB.
	MaxDocument = 4 << 20
	// DefaultLimit is how many entries a list gives where none was asked for, MaxLimit how many at most.
	DefaultLimit = 50
	MaxLimit     = 1000
)

// ErrFull is in the chain of errors of a store whose disk is full. What was acknowledged before is kept.
var ErrFull = errors.New("no space left for the store")

// ErrReadOnly is in the chain of errors of a store that can't write to its files.
var ErrReadOnly = errors.New("the store's files can't be written")

// Limit returns how many entries a list gives when n are asked for.
func Limit(n int) int {
	if n <= 0 {
		return DefaultLimit
	}
	return min(n, MaxLimit)
}

// Definition is one applied YAML document.
type Definition struct {
	Kind    string `json:"kind"`
	Project string `json:"project,omitempty"` // "" at account level
	Name    string `json:"name"`
	// File and Line say where the document came from, so that problems found later can still be shown there.
	// Line is the number of lines before the document in its file.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Source []byte `json:"source"`
	// Hash is the hex SHA-256 of Source.
	Hash string `json:"hash"`
	// Generation is that of the apply that last altered it.
	Generation int64     `json:"generation"`
	UpdatedBy  string    `json:"updatedBy"`
	UpdatedAt  time.Time `json:"updatedAt"`
}

// AnyGeneration as an expected generation lets an apply win over whatever was applied meanwhile.
const AnyGeneration int64 = -1

// PromotionFilter chooses promotions; empty fields match all.
type PromotionFilter struct {
	Project     string
	Pipeline    string
	Service     string
	Environment string
	Phase       promo.Phase
	// Active leaves out those in a final phase.
	Active bool
	Limit  int
	// Before is the id of the promotion after which the list goes on: the last one of the page before.
	Before string
}

// RollbackFilter chooses rollbacks; empty fields match all.
type RollbackFilter struct {
	Project     string
	Service     string
	Environment string
	Active      bool
	Limit       int
	Before      string
}

// Blob is larger data, named by the hex SHA-256 of its bytes.
type Blob struct {
	Digest    string    `json:"digest"`
	MediaType string    `json:"mediaType"`
	Data      []byte    `json:"data"`
	At        time.Time `json:"at"`
}

// Decision is one recorded answer of policy sets.
type Decision struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Project string    `json:"project,omitempty"`
	Sets    []string  `json:"sets"`
	Event   string    `json:"event"`
	Subject string    `json:"subject"`
	By      string    `json:"by"`
	// InputHash is the hex SHA-256 of the input document, Input the digest of the blob that keeps it.
	InputHash string   `json:"inputHash"`
	Input     string   `json:"input,omitempty"`
	Deny      []string `json:"deny,omitempty"`
	Warn      []string `json:"warn,omitempty"`
}

// DecisionFilter chooses decisions; empty fields match all.
type DecisionFilter struct {
	Project string
	Subject string
	// Denied leaves out those that allowed.
	Denied bool
	Limit  int
	Before string // a decision's id
}

// Agent is what the server knows of an agent. Hashes are hex SHA-256 of the secrets, which are not kept.
type Agent struct {
	Name           string `json:"name"`
	CredentialHash string `json:"-"`
	EnrolmentHash  string `json:"-"`
	// EnrolmentUntil ends the enrolment token, which works once.
	EnrolmentUntil time.Time `json:"enrolmentUntil,omitzero"`
	// Projects that the agent was granted to; empty for all.
	Projects     []string  `json:"projects,omitempty"`
	Capabilities []string  `json:"capabilities,omitempty"`
	Version      string    `json:"version,omitempty"`
	CreatedBy    string    `json:"createdBy"`
	CreatedAt    time.Time `json:"createdAt"`
	RevokedAt    time.Time `json:"revokedAt,omitzero"`
	LastSeenAt   time.Time `json:"lastSeenAt,omitzero"`
}

// Token is an API token. Hash is the hex SHA-256 of the secret, which is not kept.
type Token struct {
	Hash      string    `json:"-"`
	Name      string    `json:"name"`
	Principal string    `json:"principal"`
	Role      string    `json:"role"`
	Project   string    `json:"project,omitempty"` // "" for all
	CreatedBy string    `json:"createdBy"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// Event says that a thing was altered; who wants to know more reads it.
type Event struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

// The kinds of Event. The id is the thing's: "<project>/<service>/<environment>" for histories and holds,
// "<repository>/<number>" for pull requests.
const (
	EventDefinition  = "definition"
	EventPromotion   = "promotion"
	EventRollback    = "rollback"
	EventHistory     = "history"
	EventHold        = "hold"
	EventDecision    = "decision"
	EventAudit       = "audit"
	EventAgent       = "agent"
	EventToken       = "token"
	EventPullRequest = "pull-request"
	// EventLost has no id: the subscriber was too slow and must read everything again.
	EventLost = "lost"
)

// Entry is one entry of the audit.
type Entry struct {
	Seq     int64           `json:"seq"`
	At      time.Time       `json:"at"`
	Who     string          `json:"who"`
	Action  string          `json:"action"`
	Kind    string          `json:"kind"`
	Subject string          `json:"subject"`
	Project string          `json:"project,omitempty"`
	Detail  json.RawMessage `json:"detail,omitempty"`
	// Prev is the hash of the entry before, Hash covers this one and Prev.
	Prev string `json:"prev"`
	Hash string `json:"hash"`
}

// AuditFilter chooses entries; empty fields match all.
type AuditFilter struct {
	Project string
	Who     string
	Action  string
	Kind    string
	Subject string
	Since   time.Time
	Until   time.Time
	Limit   int
	Before  int64 // an entry's Seq
}

// AuditCheck is the result of walking the audit's chain.
type AuditCheck struct {
	Entries int64 `json:"entries"`
	// BrokenAt is the first Seq that does not fit, 0 where the chain is whole; Reason says why.
	BrokenAt int64  `json:"brokenAt,omitempty"`
	Reason   string `json:"reason,omitempty"`
}
