#!/bin/sh
# Compiles etcd, kube-apiserver and kubectl, unless they are there, and prints the
# folder that controller-runtime's envtest wants in KUBEBUILDER_ASSETS.
#
#	KUBEBUILDER_ASSETS=$(hack/kubernetes/envtest.sh) go test ./operator/...
set -eu
cd "$(dirname "$0")/../.."
exec go run ./hack/kubernetes assets
