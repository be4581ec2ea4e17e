package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tickmesh/tickmesh/api/client"
	"github.com/tickmesh/tickmesh/api/display"
	"github.com/tickmesh/tickmesh/api/settings"
)

// NewTokensCommand makes, lists and revokes tokens of a running server.
func NewTokensCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Make, list and revoke tokens of programs",
		Long: `Makes, lists and revokes tokens by which programs say who they are, while the server runs. It is
for administrators of "*", on servers with --auth-file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(settings.WrapUsage(newTokensCreateCommand()), settings.WrapUsage(newTokensListCommand()), settings.WrapUsage(newTokensRevokeCommand()))
	return cmd
}

func newTokensCreateCommand() *cobra.Command {
	var o settings.Output
	var texts []string
	var rights map[string]string
	expires := settings.Duration(90 * 24 * time.Hour)
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		secret, made, err := c.CreateToken(cmd.Context(), client.TokenOptions{Name: cmd.Flags().Arg(0), Rights: rights, Lifetime: time.Duration(expires)})
		if err != nil {
			return err
		}
		if o.IsJSON() {
			return display.JSON(cmd.OutOrStdout(), struct {
				Secret string       `json:"secret"`
				Token  client.Token `json:"token"`
			}{secret, made})
		}
		fmt.Fprintln(cmd.OutOrStdout(), secret)
		fmt.Fprintf(cmd.ErrOrStderr(), "This is told once. Its id is %s, and it holds until %s.\n", made.ID, timeText(made.ExpiresMs))
		return nil
	}}
	s.check = func(v *settings.Validation) {
		rights = map[string]string{}
		for _, text := range texts {
			at := strings.LastIndexByte(text, '=')
			if at <= 0 || rights[text[:at]] != "" {
				v.Refuse("right", text, `expected each database once, such as metrics=write, default=read or '*=read'`)
				continue
			}
			rights[text[:at]] = text[at+1:]
		}
		if len(texts) == 0 {
			v.Refuse("right", "", "expected a database and a right, such as metrics=write")
		}
		v.NotZero("expires", expires)
	}
	cmd := s.prepare(&cobra.Command{
		Use: "create NAME", Short: "Make a token, and write it to standard output", Args: cobra.ExactArgs(1),
		Long: `Makes a token for a program, NAME in lists and logs, and writes it to standard output. It is told
this once and kept nowhere. It has at most the rights that its creator has, now and later. A token
that is made with another token ends with that one, and cannot hold longer.`,
		Example: "  tickmesh tokens create telegraf --right metrics=write --expires 90d\n  tickmesh tokens create grafana --right '*=read' --right payroll=none",
	})
	cmd.Flags().StringArrayVar(&texts, "right", nil, "`DATABASE=RIGHT` of the token: read, write, admin or none, on a database, default, or * for all others; may be given again")
	cmd.Flags().Var(&expires, "expires", "how long it holds, from 1m to 366d")
	o.Define(cmd.Flags())
	return cmd
}

func newTokensListCommand() *cobra.Command {
	var o settings.Output
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		tokens, err := c.ListTokens(cmd.Context())
		if err != nil {
			return err
		}
		if o.IsJSON() {
			return display.JSON(cmd.OutOrStdout(), tokens)
		}
		var rows [][]string
		for i := range tokens {
			rows = append(rows, tokenRow(&tokens[i]))
		}
		return display.Table(cmd.OutOrStdout(), "ID NAME CREATOR RIGHTS CREATED EXPIRES LAST-USED STATE", rows)
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "list", Short: "List the tokens, never what opens anything", Args: cobra.NoArgs,
		Long: `Lists the tokens that were made, and those that ended within 30 days. Of the last use the hour is
told.`,
	})
	o.Define(cmd.Flags())
	return cmd
}

func newTokensRevokeCommand() *cobra.Command {
	var o settings.Output
	s := &clientCommand{run: func(cmd *cobra.Command, c *client.Client) error {
		revoked, err := c.RevokeToken(cmd.Context(), cmd.Flags().Arg(0))
		if err != nil {
			return err
		}
		if o.IsJSON() {
			return display.JSON(cmd.OutOrStdout(), revoked)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "token %s is revoked\n", revoked.ID)
		return nil
	}}
	cmd := s.prepare(&cobra.Command{
		Use: "revoke ID", Short: "Take a token back, and all that were made with it", Args: cobra.ExactArgs(1),
		Long: `Takes a token back for good, and all that were made with it. Its next request is refused, by the
other routers of a cluster as soon as the placement store has told them.`,
		Example: "  tickmesh tokens revoke 0123456789abcdef",
	})
	o.Define(cmd.Flags())
	return cmd
}

func tokenRow(t *client.Token) []string {
	var rights []string
	for _, database := range slices.Sorted(maps.Keys(t.Rights)) {
		rights = append(rights, database+"="+t.Rights[database])
	}
	state := "ok"
	if t.Refusal != "" {
		state = t.Refusal
	}
	return []string{
		t.ID, t.Name, t.Creator, strings.Join(rights, ","), timeText(t.CreatedMs), timeText(t.ExpiresMs), timeText(t.LastUsedMs), state,
	}
}

// timeText returns a Unix time for people; 0 is none.
func timeText(ms int64) string {
	if ms == 0 {
		return display.OrDash("")
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04Z")
}
