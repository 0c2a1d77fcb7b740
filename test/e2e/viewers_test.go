// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// What the controller explains is for whom the API server knows a token of audience dovetail.sh and allows the path; a
// person gets there by a forwarded port with no more than Role dovetail-viewer, and is told the command that gives it.
func TestViewers(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	port, err := sandbox.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s := own(t, "--controller-arg=--secure-address=127.0.0.1:"+port)
	e := newEnv(t, s, "viewers")
	const namespace = "dovetail-system"
	e.deploy("pending", 1, e.pod("500m", "256Mi")) // there is no NodePool for it
	e.grant("reader", []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}})
	e.bindRole(namespace, "dovetail-viewer", "reader")

	e.until("the controller answers", func() error {
		status, body, err := e.askSecurely(port, "")
		if err != nil || status != http.StatusUnauthorized || !strings.Contains(body, "create token dovetail-viewer --audience dovetail.sh") {
			return fmt.Errorf("without a token: %d %s %w", status, body, err)
		}
		return nil
	})
	for _, c := range []struct {
		name, namespace, account, audience string
		status                             int
	}{
		{"right", namespace, "dovetail-viewer", "dovetail.sh", 200},
		{"for the API server", namespace, "dovetail-viewer", "", 401},
		{"without the role", e.name, "default", "dovetail.sh", 403},
	} {
		status, body, err := e.askSecurely(port, e.token(c.namespace, c.account, c.audience))
		if err != nil || status != c.status {
			t.Errorf("a token that is %s: %d %s %v, want %d", c.name, status, body, err, c.status)
		}
	}
	if status, body, err := e.askSecurely(port, "guessed"); err != nil || status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d %s %v, want 401", status, body, err)
	}

	// A person, from afar, by a forwarded port.
	looker := e.as("looker")
	history := func(kubeconfig string, status int, says ...string) {
		t.Helper()
		e.until("history says "+strings.Join(says, " and "), func() error { // RBAC takes effect a moment later
			got, out := e.dovetail("history", "--kubeconfig", kubeconfig)
			for _, want := range says {
				if got != status || !strings.Contains(out, want) {
					return fmt.Errorf("status %d:\n%s", got, out)
				}
			}
			return nil
		})
	}
	command := func(user string) string {
		return "requires Role dovetail-viewer: kubectl -n dovetail-system create rolebinding NAME --role=dovetail-viewer --user=" + user
	}
	history(looker, 1, "looker may not list pods in namespace dovetail-system", command("looker"))
	e.bindRole(namespace, "dovetail-viewer", "looker")
	history(looker, 1, "no Dovetail controller is ready in namespace dovetail-system", "kubectl get pods -A")
	e.podOf(port, namespace)
	e.podsRefused(1)
	pod := "pod/viewers/" + e.pods()[0].Name
	history(looker, 0, pod, "no NodePool exists that could launch a node")
	if status, out := e.dovetail("why", pod, "--kubeconfig", looker); status != 0 || !strings.Contains(out, "Why no node is launched for it") {
		t.Errorf("of a pod: %d %s", status, out)
	}
	status, out := e.dovetail("why", "node/nowhere", "--kubeconfig", looker)
	if status != 1 || !strings.Contains(out, "nowhere") || strings.Contains(out, "answers 404") {
		t.Errorf("of a node that is none: %d %s", status, out)
	}

	// Who has a part of the role is told which right is missing.
	list := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}
	request := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}
	for _, c := range []struct {
		user, lacks string
		rules       []rbacv1.PolicyRule
	}{
		{"viewers-lists", "create serviceaccounts/token", []rbacv1.PolicyRule{list}},
		{"viewers-requests", "create pods/portforward", []rbacv1.PolicyRule{list, request}},
	} {
		roles := s.Kube.RbacV1().Roles(namespace)
		_, err := roles.Create(e.ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: c.user}, Rules: c.rules}, metav1.CreateOptions{})
		e.must(err)
		e.bindRole(namespace, c.user, c.user)
		history(e.as(c.user), 1, c.user+" may not "+c.lacks+" in namespace dovetail-system", command(c.user))
	}
	view, errs, status := runTop(t, "--once", "--kubeconfig", looker)
	if status != 1 || !strings.Contains(errs, "nodes") {
		t.Errorf("top without rights to read nodes: %d %s %s", status, view, errs)
	}
	reader := e.as("reader")
	e.until("top shows decisions", func() error {
		view, errs, status := runTop(t, "--once", "--kubeconfig", reader)
		_, decisions, _ := strings.Cut(view, "from Dovetail's ledger")
		if status != 0 || !strings.Contains(decisions, pod) {
			return fmt.Errorf("status %d: %s %s", status, view, errs)
		}
		return nil
	})
}

// bindRole binds a Role of a namespace to a user.
func (e *env) bindRole(namespace, role, user string) {
	e.t.Helper()
	bindings := e.s.Kube.RbacV1().RoleBindings(namespace)
	_, err := bindings.Create(e.ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}, metav1.CreateOptions{})
	e.must(err)
}

// askSecurely asks for the ledger with a token; empty: without.
func (e *env) askSecurely(port, token string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(e.ctx, http.MethodGet, "https://127.0.0.1:"+port+"/ledger", nil)
	e.must(err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // it is of the controller's own making
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// token requests one of a service account; without an audience it is for the API server.
func (e *env) token(namespace, account, audience string) string {
	e.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	var out *authenticationv1.TokenRequest
	e.until("a token is given", func() (err error) { // the account is made a moment after its namespace
		out, err = e.s.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(e.ctx, account, request, metav1.CreateOptions{})
		return err
	})
	return out.Status.Token
}

// podOf makes a pod as the controller's on a node whose kubelet forwards its ports to those of this machine.
func (e *env) podOf(port, namespace string) {
	e.t.Helper()
	kubelet := httptest.NewTLSServer(http.HandlerFunc(forwardPorts))
	e.t.Cleanup(kubelet.Close)
	_, kubeletPort, _ := net.SplitHostPort(kubelet.Listener.Addr().String())
	number := func(text string) (n int32) {
		_, err := fmt.Sscan(text, &n)
		e.must(err)
		return n
	}
	nodes, pods := e.s.Kube.CoreV1().Nodes(), e.s.Kube.CoreV1().Pods(namespace)
	_, err := nodes.Create(e.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "forwards", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec: corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: number(kubeletPort)}}}}, metav1.CreateOptions{})
	e.must(err)
	labels := map[string]string{"app.kubernetes.io/name": "dovetail", "app.kubernetes.io/component": "controller"}
	_, err = pods.Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "dovetail-viewed", Labels: labels},
		Spec: corev1.PodSpec{NodeName: "forwards", Containers: []corev1.Container{{Name: "controller", Image: "dovetail",
			Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: number(port)}}}}}}, metav1.CreateOptions{})
	e.must(err)
}

// forwardPorts is what a kubelet does to forward a port of a pod: each pair of streams is a connection.
func forwardPorts(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/portForward/") {
		http.NotFound(w, r)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	var mu sync.Mutex
	complaints := map[string]httpstream.Stream{} // by request
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, replied <-chan struct{}) error {
		mu.Lock()
		defer mu.Unlock()
		id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
		if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			complaints[id] = stream
			return nil
		}
		complaint := complaints[id]
		go func() {
			<-replied
			forwardStream(stream, complaint)
		}()
		return nil
	})
	if conn != nil {
		<-conn.CloseChan()
	}
}

func forwardStream(stream, complaint httpstream.Stream) {
	defer stream.Close()
	defer complaint.Close()
	to, err := net.Dial("tcp", "127.0.0.1:"+stream.Headers().Get(corev1.PortHeader))
	if err != nil {
		fmt.Fprint(complaint, err)
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, stream)
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(stream, to)
}
