// Package build makes the objects of Kubernetes that a cluster consists of. Each is a
// pure function of the TickMeshCluster, with its defaults filled in, and of Facts: no
// client, no clock, no randomness, so the same cluster has the same bytes, and golden
// files show what is made.
//
// Rules that the objects keep:
//
//   - What Kubernetes does not let change never changes with the spec: selectors, names,
//     claim templates (Facts has the size that a template was made with).
//   - Labels are those of Labels; a selector is a subset of them: those of Selector.
//   - No pod runs as root, gains privileges, writes its root file system or has a token
//     of the API server.
//   - Nodes and members of etcd are restarted by the operator only (OnDelete), and no
//     taint for a lost machine deletes them: the operator decides when they are replaced.
//   - Certificates are mounted as files, which the programs read again: a renewal
//     restarts nothing.
package build
