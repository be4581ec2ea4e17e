// Package ownership decides which objects of Kubernetes belong to a cluster, and which operator
// acts for it. Its functions are pure: they take what was read, and write nothing.
package ownership
