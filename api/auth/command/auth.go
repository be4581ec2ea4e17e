package command

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/auth"
	"github.com/tickmesh/tickmesh/api/secret"
)

// New returns `tickmesh auth`, which makes what a file of users has.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Make hashes of passwords, and tokens, for --auth-file",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:     "hash",
		Short:   "Read a password, a line of standard input, and write its hash",
		Example: `  tickmesh auth hash < password`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, err := readPassword(cmd.InOrStdin())
			if err != nil {
				return err
			}
			hash, err := auth.Hash(password)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), hash)
			return nil
		},
	}, &cobra.Command{
		Use:     "token",
		Short:   "Make a token, and write it and what the file has of it",
		Example: `  tickmesh auth token`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token := secret.New("")
			fmt.Fprintf(cmd.OutOrStdout(), "token, for the client:   %s\ndigest, for the file:    %s\n", token, secret.DigestOf(token))
			return nil
		},
	})
	return cmd
}

// readPassword reads one line.
func readPassword(from io.Reader) (string, error) {
	const bytesMax = 4 << 10
	line, err := bufio.NewReader(io.LimitReader(from, bytesMax)).ReadString('\n')
	if err != nil && (err != io.EOF || line == "") {
		return "", fmt.Errorf("expected a password, one line, on standard input: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}
