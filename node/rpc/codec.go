package rpc

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
)

func newCodec() encoding.CodecV2 { return encoding.GetCodecV2(proto.Name) }
