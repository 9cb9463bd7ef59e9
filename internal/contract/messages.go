package contract

import (
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// Workflow types.
const (
	PromotionWorkflow = "promotion"
	LaneWorkflow      = "lane"
	RollbackWorkflow  = "rollback"
)

// Messages to workflows.
const (
	// UpdateDecide approves, rejects or answers a waiting step (DecideMessage).
	UpdateDecide = "decide"
	// UpdateAbort aborts a run (AbortMessage).
	UpdateAbort = "abort"
	// SignalWake ends waits that name the event (string).
	SignalWake = "wake"
	// SignalLane carries a lane's answer (LaneAnswer).
	SignalLane = "lane"
	// SignalLaneMessage carries a message to a lane (LaneMessage).
	SignalLaneMessage = "lane.message"
	// QueryState answers with promo.Promotion, promo.Rollback or LaneState.
	QueryState = "state"
)

// PromotionID is the workflow id of a promotion.
func PromotionID(id string) string { return "promotion/" + id }

// RollbackID is the workflow id of a rollback.
func RollbackID(id string) string { return "rollback/" + id }

// LaneID names a lane.
type LaneID struct {
	Project     string `json:"project"`
	Service     string `json:"service"`
	Environment string `json:"environment"`
}

// WorkflowID is the lane's workflow id.
func (l LaneID) WorkflowID() string {
	return "lane/" + l.Project + "/" + l.Service + "/" + l.Environment
}

// Search attributes; set at the start and on a change of phase only.
var (
	AttrProject     = temporal.NewSearchAttributeKeyKeyword("DavitProject")
	AttrPipeline    = temporal.NewSearchAttributeKeyKeyword("DavitPipeline")
	AttrService     = temporal.NewSearchAttributeKeyKeyword("DavitService")
	AttrEnvironment = temporal.NewSearchAttributeKeyKeyword("DavitEnvironment")
)

// PromotionInput starts a promotion.
type PromotionInput struct {
	Plan plan.Plan    `json:"plan"`
	Run  plan.RunInfo `json:"run"`
	// Automatic promotions respect holds.
	Automatic bool `json:"automatic,omitempty"`
	// Only restricts target-scoped work to these targets; such a run proves nothing known-good.
	Only []string `json:"only,omitempty"`
	// Previous is the state of the failed attempt that this one goes on from; its finished stages are kept.
	Previous *promo.Promotion `json:"previous,omitempty"`
	// Sequence continues the record's numbering.
	Sequence int64 `json:"sequence,omitempty"`
}

// PromotionResult is what a promotion returns to whoever waits for it.
type PromotionResult struct {
	Phase promo.Phase `json:"phase"`
}

// DecideMessage is a person's answer to a waiting step. The server has verified the principal.
type DecideMessage struct {
	RequestID string            `json:"requestID"`
	By        promo.Principal   `json:"by"`
	Stage     string            `json:"stage,omitempty"`
	Step      string            `json:"step,omitempty"`
	Wave      int               `json:"wave,omitempty"`
	Target    string            `json:"target,omitempty"`
	Approve   bool              `json:"approve"`
	Comment   string            `json:"comment,omitempty"`
	Inputs    map[string]string `json:"inputs,omitempty"`
	// Digest, where given, must be the digest that the step asks about: what the person looked at.
	Digest string `json:"digest,omitempty"`
}

// DecideReply says how the step stands after the decision.
type DecideReply struct {
	Stage    string `json:"stage"`
	Step     string `json:"step"`
	Target   string `json:"target,omitempty"`
	Approved int    `json:"approved"`
	Minimum  int    `json:"minimum"`
	Done     bool   `json:"done"`
}

// AbortMessage ends a run.
type AbortMessage struct {
	RequestID string          `json:"requestID"`
	By        promo.Principal `json:"by"`
	Reason    string          `json:"reason,omitempty"`
}

// LaneKind is the kind of a message to a lane.
type LaneKind string

// The kinds of lane messages.
const (
	// LaneArrive announces a run that will want the lane, without queueing for it.
	LaneArrive LaneKind = "arrive"
	// LaneTake asks for the lane.
	LaneTake LaneKind = "take"
	// LanePreempt asks for the lane ahead of everybody; the holder is told to abort.
	LanePreempt LaneKind = "preempt"
	// LanePass hands the lane from the holder to Member.
	LanePass LaneKind = "pass"
	// LaneYield gives the lane back to ask people again; the run stays announced.
	LaneYield LaneKind = "yield"
	// LaneLeave gives the lane, the place in its queue or the announcement back.
	LaneLeave LaneKind = "leave"
)

// LaneMessage is a message to a lane.
type LaneMessage struct {
	Kind LaneKind `json:"kind"`
	// From is the workflow id of the sender, or of the one who leaves.
	From string `json:"from"`
	// Part is the part of the sender that wants the lane: a promotion's stage, "" for a rollback. Two stages of
	// one promotion may want one lane, and what one gives back is not the other's.
	Part string `json:"part,omitempty"`
	// Token tells takes of one part apart (stage attempts); it comes back in the answer.
	Token string        `json:"token"`
	Mode  plan.LaneMode `json:"mode,omitempty"`
	// Label is how people know the sender: the promotion's id.
	Label string `json:"label"`
	// Member gets the lane in a pass.
	Member      string `json:"member,omitempty"`
	MemberToken string `json:"memberToken,omitempty"`
	// Lane is set for the lane's first message: it learns its own name.
	Lane LaneID `json:"lane"`
}

// LaneAnswer is what a lane tells a member.
type LaneAnswer struct {
	Lane  LaneID `json:"lane"`
	Token string `json:"token"`
	// Kind is "granted", "place", "superseded", "rejected" or "preempted".
	Kind string `json:"kind"`
	// Place counts from 1 behind the holder.
	Place int `json:"place,omitempty"`
	// Holder and By are labels: ids of promotions and rollbacks.
	Holder string `json:"holder,omitempty"`
	By     string `json:"by,omitempty"`
}

// The kinds of LaneAnswer.
const (
	LaneGranted    = "granted"
	LanePlaced     = "place"
	LaneSuperseded = "superseded"
	LaneRejected   = "rejected"
	LanePreempted  = "preempted"
)

// LaneState is a lane's whole state: its input after continue-as-new, its answer to the query.
type LaneState struct {
	Lane    LaneID       `json:"lane"`
	Holder  *LaneMember  `json:"holder,omitempty"`
	Queue   []LaneMember `json:"queue,omitempty"`
	Arrived []LaneMember `json:"arrived,omitempty"`
}

// LaneMember is a run at a lane.
type LaneMember struct {
	ID    string        `json:"id"`
	Part  string        `json:"part,omitempty"`
	Token string        `json:"token"`
	Label string        `json:"label"`
	Mode  plan.LaneMode `json:"mode,omitempty"`
	Since time.Time     `json:"since"`
	// Preempts is set for a rollback that a person started.
	Preempts bool `json:"preempts,omitempty"`
}

// Same says whether both are the same part of the same run, whichever take it is.
func (m LaneMember) Same(o LaneMember) bool { return m.ID == o.ID && m.Part == o.Part }

// RunAlive asks whether a workflow is still running: a lane frees itself of a holder that is gone.
var RunAlive = Activity[RunAliveRequest, RunAliveResult]{Name: "run.alive", Class: plan.ClassQuick}

// RunAliveRequest names the workflow.
type RunAliveRequest struct {
	ID string `json:"id"`
}

// RunAliveResult is the answer.
type RunAliveResult struct {
	Alive bool `json:"alive"`
}

// RollbackInput starts a rollback.
type RollbackInput struct {
	ID        string              `json:"id"`
	Number    int                 `json:"number"`
	Target    plan.RollbackTarget `json:"target"`
	Targets   []plan.Target       `json:"targets"`
	Env       plan.Environment    `json:"environment"`
	By        promo.Principal     `json:"by"`
	Reason    string              `json:"reason,omitempty"`
	Automatic bool                `json:"automatic,omitempty"`
	Promotion string              `json:"promotion,omitempty"`
	// LaneToken is set where the promotion passes its lane to this rollback.
	LaneToken string `json:"laneToken,omitempty"`
	Shared    string `json:"shared,omitempty"` // ask (default), include, paths-only
	Delivery  string `json:"delivery,omitempty"`
	NoPrune   bool   `json:"noPrune,omitempty"`
	// Verify are the stage's Verify steps, run after the sync.
	Verify []plan.Step `json:"verify,omitempty"`
	// Inputs are those of the promotion that the Verify steps were written for; the version becomes the one gone
	// back to.
	Inputs map[string]any `json:"inputs,omitempty"`
	// BreakGlass goes on although a policy denies.
	BreakGlass bool `json:"breakGlass,omitempty"`
	// AcceptForeign undoes other people's commits without asking again.
	AcceptForeign bool          `json:"acceptForeign,omitempty"`
	Run           plan.RunInfo  `json:"run"`
	Timeout       time.Duration `json:"timeout,omitempty"`
}

// RollbackResult is what a rollback returns.
type RollbackResult struct {
	Phase   promo.Phase `json:"phase"`
	Message string      `json:"message,omitempty"`
	Commit  string      `json:"commit,omitempty"`
	To      string      `json:"to,omitempty"`
	Files   int         `json:"files"`
}

// ChildRollbackID is the id of the rollback that a promotion starts: one per attempt of a stage.
func ChildRollbackID(lane LaneID, run plan.RunInfo, stageAttempt int) string {
	return lane.Project + "/" + lane.Service + "/" + lane.Environment + "/" + run.Pipeline + "-" +
		strconv.Itoa(run.Number) + "." + strconv.Itoa(run.Attempt) + "." + strconv.Itoa(stageAttempt)
}

// Namespace is the Temporal namespace that everything runs in.
const Namespace = "davit"
