package command

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/certificate"
	"github.com/tickmesh/tickmesh/api/durable"
)

// newRequest returns `tickmesh certs request`, for pods whose certificates an operator signs.
func newRequest() *cobra.Command {
	var cluster, key, out string
	cmd := &cobra.Command{
		Use: "request --cluster NAME --key FILE --out FILE ROLE/NAME", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Make a key that stays here, and write the request for its certificate",
		RunE: func(_ *cobra.Command, args []string) error {
			identity, _, err := (&certsSettings{cluster: cluster}).identityOf(args[0])
			if err != nil {
				return err
			}
			return request(identity.Name, key, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cluster, "cluster", "", "`name` of the cluster, as nodes and routers have it")
	f.StringVar(&key, "key", "", "`file` of the key; one that is there is used")
	f.StringVar(&out, "out", "", "`file` that the request is written to")
	return cmd
}

func request(name certificate.Name, keyFile, out string) error {
	key, err := keyOf(keyFile)
	if err != nil {
		return err
	}
	text, err := certificate.EncodeRequest(name, key)
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, durable.FileMode) // in place: Kubernetes has mounted it
}

// keyOf reads a key, or makes it: a container that is started again goes on with what it has.
func keyOf(file string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err == nil {
		key, err := certificate.DecodeKey(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return key, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	key, err := certificate.NewKey()
	if err != nil {
		return nil, err
	}
	if text, err = certificate.EncodeKey(key); err != nil {
		return nil, err
	}
	return key, durable.Replace(file, text)
}

// awaited are the files that `tickmesh certs await` waits for.
type awaited struct{ cert, key, ca string }

// newAwait returns `tickmesh certs await`, the other half of `tickmesh certs request`.
func newAwait() *cobra.Command {
	var a awaited
	cmd := &cobra.Command{
		Use: "await --cert FILE --key FILE --ca FILE", Hidden: true, Args: cobra.NoArgs,
		Short: "Wait until a certificate is there that goes with a key and its CAs",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.wait(cmd.Context(), slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)))
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.cert, "cert", "", "`file` of the certificate")
	f.StringVar(&a.key, "key", "", "`file` with its key")
	f.StringVar(&a.ca, "ca", "", "`file` with the CAs")
	return cmd
}

const (
	awaitRetry = 200 * time.Millisecond
	awaitTold  = 10 * time.Second // between two log lines
)

// wait returns when the files can be used, or the context ends.
func (a awaited) wait(ctx context.Context, logger *slog.Logger) error {
	retry := time.NewTicker(awaitRetry)
	defer retry.Stop()
	var told time.Time
	for {
		now := time.Now()
		err := a.usable(now)
		if err == nil {
			logger.Info("the certificate is signed", "file", a.cert)
			return nil
		}
		if now.Sub(told) >= awaitTold {
			told = now
			logger.Info("waiting for the operator to sign the certificate of this pod", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
		}
	}
}

// usable returns what keeps a process from using the files now.
func (a awaited) usable(now time.Time) error {
	pair, err := tls.LoadX509KeyPair(a.cert, a.key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", a.cert, a.key, err)
	}
	text, err := os.ReadFile(a.ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate", a.ca)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return fmt.Errorf("%s: %w", a.cert, err)
	}
	return nil
}
