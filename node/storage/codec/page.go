package codec

// PageBytesMax bounds the payload of a page.
const PageBytesMax = 128

// DecodePage appends the samples of a page to dst. After an error dst is as
// before. Errors are ErrCorrupt.
func DecodePage(payload []byte, dst *Columns) error { return corrupt("page", 0) }

// DecodePagePoints is DecodePage with values as float64.
func DecodePagePoints(payload []byte, dst *Points) error { return corrupt("page", 0) }
