// Package command is `tickmesh router`: the flags of a router, and the process that joins a server to a
// cluster.
package command
