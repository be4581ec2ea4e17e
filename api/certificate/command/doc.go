// Package command is `tickmesh certs`, which makes an authority and the certificates of a cluster's
// processes in a folder.
package command
