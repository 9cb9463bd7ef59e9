package steps

// Builtin lists the step types that Davit ships with, in the order of the reference page.
func Builtin() []Type {
	return []Type{
		UpdateReleaseRepo(),
		WaitForPR(),
		MergePR(),
		RevertPR(),
		FetchLinkedApps(),
		Sync(),
		Rollback(),
		Approval(),
		EvaluatePolicy(),
		Verify(),
		HTTP(),
		Wait(),
	}
}
