#!/bin/sh
# Generates Go code from the .proto files, with the plugins pinned in hack/tools;
# protoc-gen-go is the one of the protobuf module that the product is built with.
# Then, from the Go types of api/v1alpha1 and the markers of the operator: deep copies,
# the definitions for Kubernetes, and the role of the operator, with the controller-gen
# of hack/tools, for the chart and for operator/config; and what follows from these. The
# bundle for the Operator Lifecycle Manager is checked by that project's own rules.
#
#	generate.sh           generate in place
#	generate.sh check     only compare, lint, and look for breaking changes
#	generate.sh baseline  take the present API as what later changes are held to
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
mkdir -p .cache/proto
bin=$root/.cache/proto
go build -o "$bin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
(cd hack/tools && go build -o "$bin/buf" github.com/bufbuild/buf/cmd/buf &&
	go build -o "$bin/protoc-gen-go-grpc" google.golang.org/grpc/cmd/protoc-gen-go-grpc &&
	go build -o "$bin/controller-gen" sigs.k8s.io/controller-tools/cmd/controller-gen)
PATH=$bin:$PATH
export PATH

# kubernetes DIR writes the files for Kubernetes below a folder, which is the root or
# another one.
kubernetes() {
	mkdir -p "$1/api/v1alpha1" "$1/charts/tickmesh/crds" "$1/charts/tickmesh/files" "$1/operator/config/crd/bases" "$1/operator/config/rbac"
	controller-gen object paths=./api/v1alpha1 output:object:dir="$1/api/v1alpha1"
	controller-gen crd paths=./api/v1alpha1 output:crd:dir="$1/charts/tickmesh/crds"
	cp "$1"/charts/tickmesh/crds/*.yaml "$1/operator/config/crd/bases"
	controller-gen rbac:roleName=tickmesh-operator paths=./operator/... output:rbac:dir="$1/charts/tickmesh/files"
	# kustomize puts tickmesh- before names, and its own namespace in the place of this one.
	sed 's/^  name: tickmesh-operator$/  name: operator/; s/^  namespace: tickmesh-system$/  namespace: system/' \
		"$1/charts/tickmesh/files/role.yaml" >"$1/operator/config/rbac/role.yaml"
}

# compare FROM TO says which generated files differ.
compare() {
	differ=0
	for file in $(cd "$1" && find . -type f); do
		cmp "$1/$file" "$2/$file" || differ=1
	done
	return $differ
}

# verify_bundle fails when operator-framework's checks of bundles, which only print, find anything.
verify_bundle() {
	(cd hack/tools && go build -o "$bin/operator-verify" github.com/operator-framework/api/cmd/operator-verify)
	found=$(operator-verify manifests --object_validate operator/bundle/manifests 2>&1)
	[ -z "$found" ] || {
		echo "$found" >&2
		return 1
	}
}

(cd proto && buf lint && buf format --diff --exit-code)
case "${1:-generate}" in
generate)
	(cd proto && buf generate)
	kubernetes "$root"
	go run ./hack/kubebuilder
	go run ./hack/chart # tests say when its files are old
	verify_bundle
	;;
baseline)
	(cd proto && buf build --as-file-descriptor-set --exclude-source-info -o baseline.binpb)
	;;
check)
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
	(cd proto && buf breaking --against baseline.binpb && buf generate -o "$out/proto")
	kubernetes "$out/kubernetes"
	go run ./hack/kubebuilder -out "$out/kubernetes"
	changed=0
	compare "$out/proto" proto || changed=1
	for file in $(find proto -name '*.pb.go'); do # of messages that are gone
		[ -e "$out/$file" ] || { echo "$file is of no .proto file" >&2; changed=1; }
	done
	compare "$out/kubernetes" . || changed=1
	verify_bundle
	if [ $changed = 1 ]; then
		echo "generated files are not what their sources say: run hack/scripts/generate.sh" >&2
		exit 1
	fi
	;;
*)
	echo "usage: generate.sh [generate|check|baseline]" >&2
	exit 2
	;;
esac
