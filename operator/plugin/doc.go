// Package plugin is `kubectl tickmesh`: what a person asks of a TickMeshCluster, and the
// few things that kubectl alone makes hard.
//
// It reads and writes resources of Kubernetes with the person's own rights, and asks the
// routers themselves through a connection that Kubernetes forwards to a pod, as
// `kubectl port-forward` does: so it needs the right to create pods/portforward, and,
// where the ports for clients are encrypted, to read the Secret with their CA.
// For logs and report it needs the right to get pods/log; Secrets go into no report.
// What it changes, it changes in the resource; the operator does the rest.
package plugin
