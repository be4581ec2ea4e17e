// Package v1alpha1 has the resources of Kubernetes that TickMesh is operated with:
// TickMeshCluster, TickMeshBackup, TickMeshBackupSchedule and TickMeshRestore of group
// tickmesh.dev. The definitions in charts/tickmesh/crds are generated from it: field
// comments become `kubectl explain`, markers become schema, defaults and CEL rules.
//
// Fields keep their names and meanings within v1alpha1. Lengths of time are Duration,
// sizes are resource.Quantity in bytes.
//
// +kubebuilder:object:generate=true
// +groupName=tickmesh.dev
package v1alpha1
