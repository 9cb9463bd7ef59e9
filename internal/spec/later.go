package spec

// laterKinds are kinds of the design that this version does not have.
func laterKinds() []string {
	return []string{"Template", "FreezeWindow", "NotificationRule", "Organization"}
}

// laterSteps are step types of the design that this version does not have. A type that is given to New wins.
func laterSteps() []string {
	return []string{
		"Rollout", "UpdateApp", "Migrate", "Job", "Barrier", "Queue", "CommitStatus", "Notify", "RunPipeline",
		"ManualIntervention",
	}
}

const notYet = "not in this version"
