package mqtt

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

// fileBytesMax bounds files of certificates.
const fileBytesMax = 1 << 20

// readCA reads the certificates that brokers' certificates are signed by.
func readCA(path string) (*x509.CertPool, error) {
	text, err := readFile(path, fileBytesMax)
	if err != nil {
		return nil, fmt.Errorf("ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca-file: %s has no certificate in PEM", path)
	}
	return pool, nil
}

// password reads the password of a connection; nil: it has none.
func (c *connection) password() ([]byte, error) {
	if c.passwordFile == "" {
		return nil, nil
	}
	text, err := readFile(c.passwordFile, passwordBytesMax)
	if err != nil {
		return nil, fmt.Errorf("password-file: %w", err)
	}
	return bytes.TrimRight(text, "\r\n"), nil
}

func readFile(path string, bytesMax int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, bytesMax+1))
	if err == nil && int64(len(text)) > bytesMax {
		err = fmt.Errorf("%s is longer than %d bytes", path, bytesMax)
	}
	return text, err
}
