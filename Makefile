# The two commands of the README are `make run` and `make test`.

DATA_DIR ?= ./data
BENCH_FLAGS ?=
GO ?= go
IMAGE_PREFIX ?=

.PHONY: build
build: ## build bin/tickmesh
	$(GO) build -trimpath -o bin/tickmesh .

.PHONY: run
run: build ## build and start a standalone server with its data in ./data
	./bin/tickmesh standalone --data-dir $(DATA_DIR) $(FLAGS)

.PHONY: check
check: ## format, linters and the fast tests: two minutes on two cores
	hack/scripts/lint.sh source
	hack/scripts/test.sh check

.PHONY: test
test: prepare ## install what the tests need and run all that proves a change
	hack/scripts/test.sh test

.PHONY: test-all
test-all: prepare ## all of `make test`, every scenario, the peers, arm64, long fuzzing: hours
	hack/scripts/test.sh all

.PHONY: prepare
prepare:
	hack/scripts/prepare.sh

.PHONY: lint
lint: ## gofmt, golangci-lint, generated files, the page, known vulnerabilities
	hack/scripts/lint.sh

.PHONY: generate
generate: ## make code, definitions, roles, operator/config, the bundle and the chart's tables from their sources
	hack/scripts/generate.sh

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZ_TIME (default 30s)
	hack/scripts/fuzz.sh

.PHONY: bench
bench: build ## measure, beside the peers that are installed; BENCH_FLAGS go to e2e/cmd/bench
	$(GO) run ./e2e/cmd/bench $(BENCH_FLAGS)

.PHONY: crash
crash: build ## kill the server at random moments, 500 times, and look for lost samples
	$(GO) test -count=1 -timeout 3h -run 'TestScenarios/one_server' ./e2e/auditor -args -kills 500

.PHONY: cluster
cluster: ## start etcd, three nodes and a router as processes of their own, with their data in ./data-cluster
	hack/scripts/cluster.sh

.PHONY: audit
audit: build ## play every fault on clusters of real processes, the long way, and look for lost samples
	$(GO) test -count=1 -timeout 3h ./e2e/auditor -args -long

.PHONY: plugin
plugin: ## build bin/kubectl-tickmesh, which kubectl finds in PATH as `kubectl tickmesh`
	$(GO) build -trimpath -o bin/kubectl-tickmesh ./operator/plugin/kubectl-tickmesh
	cp operator/plugin/kubectl_complete-tickmesh bin

.PHONY: krew
krew: ## write archives of the plugin, and its manifest for krew, to bin/krew
	$(GO) run ./hack/krew -out bin/krew

.PHONY: images
images: ## write OCI images of the product for amd64 and arm64 to bin/images, without a container engine
	$(GO) -C hack/images run . product -out ../../bin/images -prefix '$(IMAGE_PREFIX)'

.PHONY: site
site: ## build the site of all pages to bin/site, and look for dead links
	hack/scripts/site.sh

.PHONY: chart
chart: ## write archives of the charts, and what k3s takes, to bin/charts
	$(GO) run ./hack/chart -out bin/charts

.PHONY: e2e
e2e: ## all end-to-end tests on a real Kubernetes on this machine (root, Debian); `make test` runs some of them
	hack/kubernetes/e2e.sh

.PHONY: lab-up
lab-up: ## start that Kubernetes and leave it running: go run ./hack/kubernetes run kubectl get pods -A
	hack/scripts/prepare.sh kubernetes
	$(GO) run ./hack/kubernetes up

.PHONY: lab-down
lab-down: ## end it and remove all that it has left
	$(GO) run ./hack/kubernetes down

.PHONY: help
help:
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12
