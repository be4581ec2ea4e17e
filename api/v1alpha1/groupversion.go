package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all kinds, and Version their version.
const (
	Group   = "tickmesh.dev"
	Version = "v1alpha1"
)

// Kinds of the group.
const (
	KindCluster        = "TickMeshCluster"
	KindBackup         = "TickMeshBackup"
	KindBackupSchedule = "TickMeshBackupSchedule"
	KindRestore        = "TickMeshRestore"
)

// GroupVersion returns the group and version of all kinds.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// AddToScheme makes a scheme know the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&TickMeshCluster{}, &TickMeshClusterList{},
		&TickMeshBackup{}, &TickMeshBackupList{},
		&TickMeshBackupSchedule{}, &TickMeshBackupScheduleList{},
		&TickMeshRestore{}, &TickMeshRestoreList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
