package e2e

// ship is the long way: three environments, pull requests, two waves in production after an approval, verification
// in each. Windows are short.
const ship = `
apiVersion: davit.dev/v1alpha1
kind: Pipeline
metadata: {name: ship-<<.Service>>}
spec:
  service: <<.Service>>
  inputs: {version: {type: string, required: true}}
  stages:
    - name: dev
      type: Deployment
      environment: <<.Dev>>
      steps: &steps
        - name: update
          type: UpdateReleaseRepo
          spec:
            files:
              - {path: dev/kustomization.yaml, kustomizeImage: {name: registry.example.com/acme/<<.Service>>, newTag: "${{ inputs.version }}"}}
              - {path: dev/values.yaml, set: {release.version: "${{ inputs.version }}"}}
        - {name: merge, type: MergePR}
        - {name: sync, type: Sync, spec: {prune: true}}
        - name: verify
          type: Verify
          spec: &verify
            window: {warmup: 4s, duration: 2s, interval: 1s} # metrics of pods that just started are not there yet
            metrics: [{name: errors, connector: prometheus, failIf: value > 0.1, query: "` + errorRate + `"}]
    - name: staging
      type: Deployment
      environment: <<.Staging>>
      steps:
        - name: update
          type: UpdateReleaseRepo
          spec:
            files:
              - {path: staging/kustomization.yaml, kustomizeImage: {name: registry.example.com/acme/<<.Service>>, newTag: "${{ inputs.version }}"}}
              - {path: staging/values.yaml, set: {release.version: "${{ inputs.version }}"}}
        - {name: merge, type: MergePR}
        - {name: sync, type: Sync, spec: {prune: true}}
        - {name: verify, type: Verify, spec: *verify}
    - name: prod
` + prodStage + `
        - {name: verify, type: Verify, spec: *verify}
`

// errorRate is the share of bad answers on the step's cluster.
const errorRate = `sum(rate(http_requests_total{app='<<.Service>>',cluster='${{ target.agent }}',code=~'5..'}[4s])) / ` +
	`sum(rate(http_requests_total{app='<<.Service>>',cluster='${{ target.agent }}'}[4s]))`

const prodStage = `      type: Deployment
      environment: <<.Prod>>
      waves: [[us], [eu]]
      steps:
        - name: update
          type: UpdateReleaseRepo
          spec:
            files:
              - {path: "prod/${{ target.name }}/kustomization.yaml", kustomizeImage: {name: registry.example.com/acme/<<.Service>>, newTag: "${{ inputs.version }}"}}
              - {path: "prod/${{ target.name }}/values.yaml", set: {release.version: "${{ inputs.version }}"}}
        - name: sign-off
          type: Approval
          spec: {approvers: {groups: [release-managers], minimum: 1, disallowExecutor: true}}
        - {name: merge, type: MergePR, spec: {method: squash}}
        - {name: sync, type: Sync, spec: {prune: true}}`

// prod goes to production alone, by pull requests and after an approval.
const prod = `
apiVersion: davit.dev/v1alpha1
kind: Pipeline
metadata: {name: prod-<<.Service>>}
spec:
  service: <<.Service>>
  inputs: {version: {type: string, required: true}}
  stages:
    - name: prod
` + prodStage + "\n"

// direct brings dev to a version by a push, without waits.
const direct = `
apiVersion: davit.dev/v1alpha1
kind: Pipeline
metadata: {name: direct-<<.Service>>}
spec:
  service: <<.Service>>
  inputs: {version: {type: string, required: true}}
  stages:
    - name: dev
      type: Deployment
      environment: <<.Dev>>
      steps:
        - name: update
          type: UpdateReleaseRepo
          spec:
            delivery: push
            files:
              - {path: dev/kustomization.yaml, kustomizeImage: {name: registry.example.com/acme/<<.Service>>, newTag: "${{ inputs.version }}"}}
              - {path: dev/values.yaml, set: {release.version: "${{ inputs.version }}"}}
        - {name: sync, type: Sync, spec: {prune: true}}
`

// prodOnlyWithRollback goes to production alone, verifies, and rolls back by itself.
const prodOnlyWithRollback = `
apiVersion: davit.dev/v1alpha1
kind: Pipeline
metadata: {name: guarded-<<.Service>>}
spec:
  service: <<.Service>>
  inputs: {version: {type: string, required: true}}
  stages:
    - name: prod
` + prodStage + `
        - name: verify
          type: Verify
          spec:
            window: {duration: 6s, interval: 1s}
            metrics: [{name: errors, connector: prometheus, failIf: value > 0.1, query: "` + errorRate + `"}]
      onFailure:
        - {errors: [Verification, Health, Timeout], action: Rollback}
`
