package workflows

// The change ids of workflow.GetVersion stand here, one constant and one comment each, oldest first. A change id is
// removed only with the recorded histories that need it. There is none yet: the first recorded version is v0.1.
