// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/dovetail-sh/dovetail/internal/access"
)

const (
	// viewer is the ServiceAccount whose tokens the controller takes from people, and the Role that lets people reach it.
	viewer = "dovetail-viewer"
	// securePort is that of the controller, where its container doesn't name one; securePortName is how it is named there.
	securePort     = 8443
	securePortName = "https"
	tokenLasts     = 10 * time.Minute // the least that an API server gives
	mostAnswer     = 64 << 20         // bytes
)

// controllerLabels are those of the controller's pods in the chart.
const controllerLabels = "app.kubernetes.io/name=dovetail,app.kubernetes.io/component=controller"

// Reach asks the controller of a cluster: it forwards a port to the pod that leads, with the user's own credentials, and shows
// the controller a token of ServiceAccount dovetail-viewer that is good for nothing else, so that those credentials never leave
// for a pod. It keeps the connection for the next question. It is safe for concurrent use.
type Reach struct {
	client *Client

	mu  sync.Mutex
	way *way // nil: none is open
}

// way is a port that is forwarded to a controller.
type way struct {
	pod       *corev1.Pod
	port      int // of the pod
	local     int
	token     string
	renew     time.Time
	transport *http.Transport
	stop      chan struct{}
}

// NewReach returns a Reach without a connection.
func NewReach(c *Client) *Reach { return &Reach{client: c} }

// ControllerRefusal is a controller's error for an object that it does not know.
type ControllerRefusal struct{ Said string }

func (e *ControllerRefusal) Error() string { return e.Said }

// NoController is the error if no reachable controller runs in the cluster.
type NoController struct{ Text string }

func (e *NoController) Error() string { return e.Text }

// MissingRole is the error if the user lacks the permissions to reach the controller.
type MissingRole struct {
	Text  string
	There bool // a controller is known to exist
}

func (e *MissingRole) Error() string { return e.Text }

// Ask returns what the controller answers at a path, such as ledger. An error is a *ControllerRefusal where it knows of no such
// object and a *NoController where there is none; any other says which command mends it, where one does.
func (r *Reach) Ask(ctx context.Context, path string) ([]byte, error) {
	w, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := w.ask(ctx, path)
	var refused *ControllerRefusal
	if err != nil && !errors.As(err, &refused) {
		r.forget(w)
	}
	return raw, err
}

// forget has the next question find the controller again.
func (r *Reach) forget(w *way) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.way == w {
		r.way = nil
		close(w.stop)
		w.transport.CloseIdleConnections()
	}
}

// open returns the way to the controller, and makes it where there is none.
func (r *Reach) open(ctx context.Context) (*way, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.way != nil && time.Now().Before(r.way.renew) {
		return r.way, nil
	}
	if r.way != nil {
		token, err := r.client.viewerToken(ctx, r.way.pod.Namespace)
		if err != nil {
			return nil, err
		}
		fresh := *r.way
		fresh.token, fresh.renew = token, time.Now().Add(tokenLasts*2/3)
		r.way = &fresh
		return r.way, nil
	}
	pod, err := r.client.controllerPod(ctx)
	if err != nil {
		return nil, err
	}
	token, err := r.client.viewerToken(ctx, pod.Namespace)
	if err != nil {
		return nil, err
	}
	w := &way{pod: pod, port: securePortOf(pod), token: token, renew: time.Now().Add(tokenLasts * 2 / 3), stop: make(chan struct{})}
	if w.local, err = r.client.forwardPort(ctx, pod, w.port, w.stop); err != nil {
		close(w.stop)
		return nil, err
	}
	// The API server has led to this pod: a name in its certificate would say no more.
	w.transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	r.way = w
	return w, nil
}

// ask asks the controller at the other end.
func (w *way) ask(ctx context.Context, path string) ([]byte, error) {
	address := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(w.local)) + "/" + strings.TrimPrefix(path, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("ask pod %s/%s: %w", w.pod.Namespace, w.pod.Name, err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	res, err := (&http.Client{Transport: w.transport}).Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask pod %s/%s: %w", w.pod.Namespace, w.pod.Name, ctx.Err())
		}
		return nil, fmt.Errorf("pod %s/%s does not respond on port %d: set secureServing.enabled in the chart, or --secure-address of the controller (%w)",
			w.pod.Namespace, w.pod.Name, w.port, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer))
	said := strings.TrimSpace(string(body))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask pod %s/%s: %w", w.pod.Namespace, w.pod.Name, err)
	case res.StatusCode == http.StatusNotFound && said != "" && said != "404 page not found":
		return nil, &ControllerRefusal{said}
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("pod %s/%s answers %s: %s", w.pod.Namespace, w.pod.Name, res.Status, said)
	}
	return body, nil
}

// controllerPod finds the controller's pod: the one that holds the lease, else one that is ready. Who may not list leases is
// taken to have its controller in the usual namespace, or in that of the kubeconfig's context.
func (c *Client) controllerPod(ctx context.Context) (*corev1.Pod, error) {
	places, err := c.controllerPlaces(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the controller: %w", err)
	}
	var looked []string
	for _, p := range places {
		var pods corev1.PodList
		err := c.Core.Get().Namespace(p.namespace).Resource("pods").Param("labelSelector", controllerLabels).Do(ctx).Into(&pods)
		if apierrors.IsForbidden(err) && len(looked) > 0 {
			continue // the namespace of the kubeconfig's context was only a guess
		} else if apierrors.IsForbidden(err) {
			return nil, c.lacksRole(ctx, p.namespace, "list pods", p.holder != "")
		} else if err != nil {
			return nil, fmt.Errorf("find the controller: %w", err)
		}
		if pod := leaderOf(pods.Items, p.holder); pod != nil {
			return pod, nil
		}
		looked = append(looked, p.namespace)
	}
	return nil, &NoController{fmt.Sprintf("no Dovetail controller is ready in namespace %s of %s; find it with: kubectl get pods -A -l %s",
		strings.Join(looked, ", "), c.Address, controllerLabels)}
}

// ControllerArgs returns the arguments of the leading controller from its pod. The error is a *NoController if none runs, and
// a *MissingRole if its pod may not be read.
func (c *Client) ControllerArgs(ctx context.Context) ([]string, error) {
	pod, err := c.controllerPod(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range pod.Spec.Containers {
		if words := slices.Concat(x.Command, x.Args); slices.Contains(words, "controller") {
			return words, nil
		}
	}
	return nil, nil
}

// place is a namespace where a controller may be, and the host name of who holds the lease there; empty: nobody does.
type place struct{ namespace, holder string }

func (c *Client) controllerPlaces(ctx context.Context) ([]place, error) {
	lease := DefaultLease()
	leases, err := c.LeasesNamed(ctx, []string{lease.Name})
	if apierrors.IsForbidden(err) {
		var usual []place
		for _, ns := range slices.Compact([]string{lease.Namespace, cmp.Or(c.Namespace, lease.Namespace)}) {
			var l coordinationv1.Lease
			if err := c.Coordination.Get().Namespace(ns).Resource("leases").Name(lease.Name).Do(ctx).Into(&l); err != nil {
				l = coordinationv1.Lease{} // it is asked for pods next, and what is not allowed is said of those
			}
			usual = append(usual, place{ns, holderOf(&l)})
		}
		return usual, nil
	}
	if err != nil {
		return nil, err
	}
	var out []place
	for i := range leases {
		if holder := holderOf(&leases[i]); holder != "" {
			out = append(out, place{leases[i].Namespace, holder})
		}
	}
	if len(out) == 0 { // shadow mode holds none
		out = []place{{namespace: lease.Namespace}}
		if c.Namespace != "" && c.Namespace != lease.Namespace {
			out = append(out, place{namespace: c.Namespace})
		}
	}
	return out, nil
}

// holderOf is the host name of a lease's holder, which is the name of its pod; empty: nobody holds it.
func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	host, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	return host
}

// leaderOf is the pod that holds the lease under its own name, or under its node's where it uses the host's network; else the
// first that is ready; nil: none is.
func leaderOf(pods []corev1.Pod, holder string) *corev1.Pod {
	var ready *corev1.Pod
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			continue
		}
		if node, _, _ := strings.Cut(p.Spec.NodeName, "."); holder != "" && (p.Name == holder || p.Spec.HostNetwork && (p.Spec.NodeName == holder || node == holder)) {
			return p
		}
		isReady := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if isReady && (ready == nil || p.Name < ready.Name) {
			ready = p
		}
	}
	return ready
}

// securePortOf is the port at which a controller answers who has a token.
func securePortOf(pod *corev1.Pod) int {
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.Name == securePortName {
				return int(p.ContainerPort)
			}
		}
	}
	return securePort
}

// viewerToken asks for a token that is good for the controller alone.
func (c *Client) viewerToken(ctx context.Context, namespace string) (string, error) {
	seconds := int64(tokenLasts / time.Second)
	var answer authenticationv1.TokenRequest
	err := c.postJSON(ctx, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+viewer+"/token", &authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{Audiences: []string{access.Audience}, ExpirationSeconds: &seconds},
	}, &answer)
	switch {
	case apierrors.IsForbidden(err):
		return "", c.lacksRole(ctx, namespace, "create serviceaccounts/token", true)
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("ServiceAccount %s/%s not found, whose tokens the controller accepts: set secureServing.enabled in the chart, or apply 'dovetail manifests'", namespace, viewer)
	case err != nil:
		return "", fmt.Errorf("request a token of ServiceAccount %s/%s: %w", namespace, viewer, err)
	}
	return answer.Status.Token, nil
}

// lacksRole names the right that is missing, and the command that gives it.
func (c *Client) lacksRole(ctx context.Context, namespace, right string, there bool) error {
	who, subject := "you", "--user=NAME"
	var self authenticationv1.SelfSubjectReview
	err := c.postJSON(ctx, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
	}, &self)
	if name := self.Status.UserInfo.Username; err == nil && name != "" { // else the command is said without the name
		who, subject = name, "--user="+name
	}
	return &MissingRole{fmt.Sprintf("%s may not %s in namespace %s, which requires Role %s: kubectl -n %s create rolebinding NAME --role=%s %s",
		who, right, namespace, viewer, namespace, viewer, subject), there}
}

// forwardPort forwards a free port of this machine's loopback to a port of a pod until stop is closed, and returns it.
func (c *Client) forwardPort(ctx context.Context, pod *corev1.Pod, port int, stop chan struct{}) (int, error) {
	url := c.Core.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return 0, fmt.Errorf("forward a port: %w", err)
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	overWebsocket, err := portforward.NewSPDYOverWebsocketDialer(url, c.config)
	if err != nil {
		return 0, fmt.Errorf("forward a port: %w", err)
	}
	dialer := portforward.NewFallbackDialer(overWebsocket, overSPDY, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	ready, failed := make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return 0, fmt.Errorf("forward a port: %w", err)
	}
	go func() { failed <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		if err != nil && strings.Contains(strings.ToLower(err.Error()), "forbidden") {
			return 0, c.lacksRole(ctx, pod.Namespace, "create pods/portforward", true)
		}
		return 0, fmt.Errorf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, cmp.Or(err, io.ErrUnexpectedEOF))
	case <-ctx.Done():
		return 0, fmt.Errorf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, ctx.Err())
	}
	ports, err := forwarder.GetPorts()
	if err != nil || len(ports) != 1 {
		return 0, fmt.Errorf("forward a port to pod %s/%s: %w", pod.Namespace, pod.Name, cmp.Or(err, io.ErrUnexpectedEOF))
	}
	return int(ports[0].Local), nil
}
