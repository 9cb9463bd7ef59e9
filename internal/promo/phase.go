package promo

// Phase says where a promotion, stage or step is.
type Phase string

// The phases. Succeeded, Failed, Aborted, Superseded and Skipped are final.
const (
	PhasePending            Phase = "Pending"
	PhaseRunning            Phase = "Running"
	PhaseWaitingForApproval Phase = "WaitingForApproval"
	PhasePaused             Phase = "Paused"
	PhaseSucceeded          Phase = "Succeeded"
	PhaseFailed             Phase = "Failed"
	PhaseAborted            Phase = "Aborted"
	PhaseSuperseded         Phase = "Superseded"
	PhaseSkipped            Phase = "Skipped"
)

// Final reports whether nothing further happens in this phase.
func (p Phase) Final() bool {
	switch p {
	case PhaseSucceeded, PhaseFailed, PhaseAborted, PhaseSuperseded, PhaseSkipped:
		return true
	case PhasePending, PhaseRunning, PhaseWaitingForApproval, PhasePaused:
		return false
	}
	return false
}
