package handshake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/grpc/metadata"
)

// OwnerHeader is the header of a call that a router makes for somebody: whom nodes charge it to. It has a digest, so that
// it is short whatever names are, and tells nobody's name. Nodes of older versions do not know of it.
const OwnerHeader = "tickmesh-owner"

// ownerBytes is how much of the digest is sent.
const ownerBytes = 16

// WithOwner returns the context of a call that is made for an owner, such as a user; "": for nobody in particular.
func WithOwner(ctx context.Context, owner string) context.Context {
	if owner == "" {
		return ctx
	}
	digest := sha256.Sum256([]byte(owner))
	return metadata.AppendToOutgoingContext(ctx, OwnerHeader, hex.EncodeToString(digest[:ownerBytes]))
}

// OwnerOf returns what tells the owner of a call that a server has let in from those of others; "": its caller names none. Only
// routers are believed: a node calls for itself.
func OwnerOf(ctx context.Context) string {
	caller, ok := Caller(ctx)
	values := metadata.ValueFromIncomingContext(ctx, OwnerHeader)
	if !ok || caller.Node != "" || len(values) != 1 || len(values[0]) != hex.EncodedLen(ownerBytes) {
		return ""
	}
	return values[0]
}
