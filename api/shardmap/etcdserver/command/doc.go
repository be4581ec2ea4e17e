// Package command is `tickmesh etcd`, a member of the placement store.
package command
