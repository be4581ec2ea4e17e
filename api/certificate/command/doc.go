// Package command is `tickmesh certs`, which makes a CA and the certificates of a cluster's
// processes in a folder.
package command
