package promo

import "strconv"

// EventPullRequest names "something happened to this pull request": a wait that names it is woken.
func EventPullRequest(repository string, number int) string {
	return "pr/" + repository + "/" + strconv.Itoa(number)
}

// EventAgent names "this agent came or went".
func EventAgent(agent string) string { return "agent/" + agent }

// EventHold names "a hold on this service's environment changed".
func EventHold(project, service, environment string) string {
	return "hold/" + project + "/" + service + "/" + environment
}
