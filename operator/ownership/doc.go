// Package ownership decides what belongs to a cluster: which objects of Kubernetes are its
// own, and which operator acts for it. Its functions are pure: they look at what was read,
// and write nothing.
package ownership
