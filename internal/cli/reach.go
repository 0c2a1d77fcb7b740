// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// reachFlags say which controller to ask.
type reachFlags struct{ server, kubeconfig, context string }

// reachHelp is how a command finds the controller, for its help.
const reachHelp = "--server (DOVETAIL_SERVER) is the URL of the controller. If that is unset and no cluster is named, a running sandbox is used.\n" +
	"Otherwise a port is forwarded to the controller's pod with the permissions of the kubeconfig and a token of ServiceAccount\n" +
	"dovetail-viewer. That requires Role dovetail-viewer in the controller's namespace:\n" +
	"  kubectl -n dovetail-system create rolebinding NAME --role=dovetail-viewer --user=NAME"

// serverUsage is the usage text of --server.
const serverUsage = "URL of the controller (DOVETAIL_SERVER). For its --secure-address, use https and set DOVETAIL_TOKEN. If unset, a port is forwarded to the controller's pod"

func (f *reachFlags) add(c *cobra.Command) {
	g := c.Flags()
	g.StringVar(&f.server, "server", os.Getenv("DOVETAIL_SERVER"), serverUsage)
	g.StringVar(&f.kubeconfig, "kubeconfig", "", kubeconfigUsage)
	g.StringVar(&f.context, "context", "", contextUsage)
}

// ask reads the JSON that the controller answers at a path into an answer.
func (f *reachFlags) ask(ctx context.Context, shown *progress, verb, path string, answer any) error {
	if f.server != "" {
		shown.at("waiting for the controller at %s", f.server)
		return askController(ctx, f.server, verb, path, answer)
	}
	shown.at("connecting to the cluster")
	log, err := logger(os.Stderr, "text", "error")
	if err != nil {
		return err
	}
	o, err := observe(ctx, topFlags{clusterFlags: clusterFlags{f.kubeconfig, f.context}}, log)
	if err != nil {
		return err
	}
	shown.at("waiting for the controller")
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	raw, err := o.ask(limited, path)
	var refused refusal
	var said *client.ControllerRefusal
	switch {
	case errors.As(err, &refused) && refused.code == http.StatusNotFound && refused.said != "" && refused.said != "404 page not found":
		return errors.New(refused.said)
	case errors.As(err, &said):
		return said
	case err != nil:
		return fmt.Errorf("ask the controller of %s: %w", o.client.Address, err)
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("response from the controller of %s: %w", o.client.Address, err)
	}
	return nil
}

const (
	ledgerEvery   = 2 * time.Second  // how often a ledger is read that answers
	ledgerPause   = 15 * time.Second // and one that does not
	ledgerLimit   = 5 * time.Second
	answerMost    = 64 << 20 // bytes of an answer
	oncePerMinute = time.Minute
)
