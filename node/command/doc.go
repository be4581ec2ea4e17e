// Package command is `tickmesh node`: its flags, and the process that they make of a member. What a
// standalone server has of a node's flags is here as well.
package command
