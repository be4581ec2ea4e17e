// Package etcdserver runs an etcd server of one member inside this process: the
// placement store of a local cluster, and of tests. A cluster that has to outlive a
// machine uses an etcd of its own.
package etcdserver
