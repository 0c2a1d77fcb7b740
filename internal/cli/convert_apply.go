// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

// convertManager is the field manager in whose name converted objects are applied.
const convertManager = "dovetail-convert"

// checkAsking says that nobody can be asked whether objects are to be applied, where that is so.
func (f *convertFlags) checkAsking(in io.Reader) error {
	if !f.apply || f.yes {
		return nil
	}
	if file, ok := in.(*os.File); ok && term.IsTerminal(file.Fd()) {
		return nil
	}
	return exit{2, errors.New("--apply: can't ask for confirmation, because the standard input is not a terminal: use --yes, or remove --apply to print the objects")}
}

// applyObjects shows how the objects of a conversion differ from those in the cluster, asks, and applies them. All are
// tried first: where one is refused none is written.
func applyObjects(cmd *cobra.Command, conv *convert.Conversion, f convertFlags) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	list, err := conv.Objects()
	if err != nil {
		return err
	}
	client, _, err := connectUser(ctx, clusterFlags{kubeconfig: f.kubeconfig}, "convert")
	if err != nil {
		return err
	}
	var changed []map[string]any
	for _, o := range list {
		before, after, err := write.Apply(ctx, client, o, convertManager, true)
		if err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
		diff, err := diffObjects(before, after)
		if err != nil {
			return err
		}
		if diff != "" {
			changed = append(changed, o)
			if _, err := io.WriteString(out, diff); err != nil {
				return fmt.Errorf("write differences: %w", err)
			}
		}
	}
	if len(changed) == 0 {
		fmt.Fprintln(out, "The cluster has these objects already: nothing to change.")
		return nil
	}
	if !f.yes {
		fmt.Fprintf(out, "Apply %d objects? [y/N] ", len(changed))
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the answer: %w", err)
		}
		if a := strings.ToLower(strings.TrimSpace(line)); a != "y" && a != "yes" {
			return errors.New("nothing was changed")
		}
	}
	for i, o := range changed {
		if _, _, err := write.Apply(ctx, client, o, convertManager, false); err != nil {
			return fmt.Errorf("%d of %d objects were applied: %w", i, len(changed), err)
		}
		fmt.Fprintln(out, nameOfObject(o), "applied")
	}
	return nil
}

// nameOfObject is a kind and a name, as kubectl writes them.
func nameOfObject(o map[string]any) string {
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return strings.ToLower(kind) + "/" + name
}

// diffObjects is the unified difference of an object as it is (nil: there is none) and as it is to be; empty: none.
func diffObjects(before, after map[string]any) (string, error) {
	var texts [2]string
	for i, o := range []map[string]any{before, after} {
		if o == nil {
			continue
		}
		b, err := yaml.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("write %s: %w", nameOfObject(o), err)
		}
		texts[i] = string(b)
	}
	old := nameOfObject(after) + " in the cluster"
	if before == nil {
		old = os.DevNull
	}
	return udiff.Unified(old, nameOfObject(after)+" converted", texts[0], texts[1]), nil
}
