// Package command is `tickmesh auth`, which makes what the file of users has.
package command
