package shardmap

import (
	"errors"
	"fmt"
)

// Bounds of the tokens that a store keeps.
const (
	TokensMax           = 1000
	tokenIDBytes        = 16
	tokenRecordBytesMax = 16 << 10
)

// Errors of SwapToken.
var (
	// ErrToken: the id or the record cannot be kept.
	ErrToken = errors.New("not a valid record of a token")
	// ErrTokens: there are TokensMax tokens already.
	ErrTokens = errors.New("there are too many tokens")
	// ErrTokenChanged: the token's record is not the one expected.
	ErrTokenChanged = errors.New("the record of the token was changed by another")
)

// ValidateToken checks a token's id, hexadecimal digits, and the size of its record, of which
// "" forgets the token. What a record says is not looked at. Errors: ErrToken.
func ValidateToken(id, record string) error {
	if len(id) != tokenIDBytes {
		return fmt.Errorf("%w: the id %q", ErrToken, id)
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("%w: the id %q", ErrToken, id)
		}
	}
	if len(record) > tokenRecordBytesMax {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrToken, len(record), tokenRecordBytesMax)
	}
	return nil
}
