package wire

// SessionKeyBytesMax bounds the keys of the series that one stream of writes names
// by handles. A client that needs more of them opens another stream.
const SessionKeyBytesMax = 32 << 20
