// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// describe writes what was decided last, an action or a pod a line, and when to look again. Statuses of pools are left out but for
// those that a script asks about.
func (x *script) describe() string {
	var b strings.Builder
	n := 0
	for _, a := range x.last.Actions {
		if u, ok := a.(plan.UpdatePool); ok && !x.status[u.Pool] {
			continue
		}
		n++
		fmt.Fprintf(&b, "  %s\n", describeAction(a))
	}
	for _, d := range x.last.Pods {
		if d.Outcome == plan.OnNew {
			continue // said at the claim
		}
		fmt.Fprintf(&b, "  pod %s: %s", d.Pod.Name, d.Outcome)
		if d.Target != "" {
			fmt.Fprintf(&b, " %s", d.Target)
		}
		for i, r := range d.Reasons {
			if i > 0 {
				b.WriteString(";")
			}
			fmt.Fprintf(&b, " %s", reason(r))
		}
		b.WriteByte('\n')
		n++
	}
	for _, m := range x.last.Notes {
		n++
		fmt.Fprintf(&b, "  tell %s/%s %s %s\n", m.Kind, m.Name, m.Event, reason(m.Why))
	}
	for _, v := range x.last.Buffers {
		n++
		fmt.Fprintf(&b, "  buffer %s: %s\n", v.Buffer.Name, describeBuffer(v))
	}
	if n == 0 {
		b.WriteString("  nothing to do\n")
	}
	if !x.last.Next.IsZero() {
		fmt.Fprintf(&b, "  again +%s\n", x.last.Next.Sub(epoch))
	}
	return b.String()
}

func describeBuffer(v BufferState) string {
	var w []string
	for _, x := range []struct {
		count int
		what  string
	}{{v.Ready, "ready"}, {v.Coming, "coming"}, {v.Sought, "sought"}, {v.None, "without a place"}, {v.Priced, "too dear"}} {
		if x.count > 0 {
			w = append(w, fmt.Sprintf("%d %s", x.count, x.what))
		}
	}
	for _, r := range v.Why {
		w = append(w, reason(r))
	}
	if v.Shared != "" {
		w = append(w, "shares with "+v.Shared)
	}
	return strings.Join(w, " ")
}

func reason(r plan.Reason) string {
	out := "(" + string(r.Code)
	f := r.Fields()
	for _, kv := range [][2]string{{"subject", f.Subject}, {"key", f.Key}, {"want", f.Want}, {"have", f.Have}, {"command", string(r.Command)}} {
		if kv[1] != "" {
			out += " " + kv[0] + "=" + kv[1]
		}
	}
	return out + ")"
}

func describeAction(a plan.Action) string {
	var w []string
	add := func(yes bool, s ...string) {
		if yes {
			w = append(w, s...)
		}
	}
	pairs := func(what string, m map[string]string) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if m[k] == plan.Unset {
				add(true, what+" -"+k)
				continue
			}
			add(true, what+" "+k+"="+m[k])
		}
	}
	switch a := a.(type) {
	case plan.CreateClaim:
		var pods, types []string
		for _, p := range a.Pods {
			pods = append(pods, p.Name)
		}
		for _, t := range a.Types {
			types = append(types, t.Name)
		}
		add(true, "create", a.Name, strings.Join(types, "|"))
		if q := a.Requirements.Get(model.LabelNodeGroup); q != nil {
			add(true, "of "+strings.Join(q.Values, "|"))
		}
		add(true, "$"+strconv.FormatFloat(float64(a.PriceMicro)/1e6, 'f', -1, 64), "for", strings.Join(pods, " "))
		if a.Reserved {
			add(true, "reserved", slotsText(a.Slots))
		} else {
			add(true, "not reserved "+reason(a.NoReserve))
		}
	case plan.LaunchClaim:
		add(true, "launch", a.Claim)
	case plan.DeleteClaim:
		add(true, "delete claim", a.Claim)
	case plan.UpdateClaim:
		add(true, "update claim", a.Claim)
		add(a.AddFinalizer, "+finalizer")
		add(a.RemoveFinalizer, "-finalizer")
		pairs("label", a.Labels)
		pairs("annotation", a.Annotations)
		for _, k := range slices.Sorted(maps.Keys(a.Conditions)) {
			add(true, k+"="+a.Conditions[k].Status)
		}
		add(a.SetSlots, slotsText(a.Slots))
	case plan.UpdateNode:
		add(true, "update node", a.Node)
		add(a.AddFinalizer, "+finalizer")
		add(a.RemoveFinalizer, "-finalizer")
		pairs("label", a.Labels)
		for _, t := range a.AddTaints {
			add(true, "+"+taintText(t))
		}
		add(a.DaemonsOnly, "as a cordon")
		for _, t := range a.RemoveTaints {
			add(true, "-"+taintText(t))
		}
		if a.Uncordon {
			add(true, "uncordon")
		}
	case plan.Reboot:
		add(true, "reboot", a.Node, "of boot", a.BootID, "after update", describeAction(a.Note))
	case plan.DeleteNode:
		add(true, "delete node", a.Node)
	case plan.Bind:
		add(true, "bind", a.Pod, "to", a.Node)
	case plan.Tolerate:
		add(true, "let", a.Pod, "into", a.Claim)
	case plan.Evict:
		add(true, "evict", a.Pod)
	case plan.Restart:
		add(true, "restart", a.Deployment, "for", a.Pod)
	case plan.DeletePod:
		add(true, "delete pod", a.Pod)
	case plan.Terminate:
		add(true, "terminate", a.ProviderID)
	case plan.UpdatePool:
		add(true, "pool", a.Pool, fmt.Sprintf("nodes=%d", a.Nodes), a.Resources.Format(model.FixedNames()))
		for _, k := range slices.Sorted(maps.Keys(a.Conditions)) {
			add(true, k+"="+a.Conditions[k].Status)
			add(a.Conditions[k].Status != "True", a.Conditions[k].Reason, strconv.Quote(a.Conditions[k].Message))
		}
		return strings.Join(w, " ")
	default:
		add(true, fmt.Sprintf("%T", a))
	}
	return strings.Join(w, " ") + " " + reason(a.Because())
}

func slotsText(slots []model.Slot) string {
	s := make([]string, len(slots))
	for i, x := range slots {
		s[i] = fmt.Sprintf("%s×%d", x.Owner, x.Count)
		if x.Loose {
			s[i] += "(loose)"
		}
	}
	return "[" + strings.Join(s, " ") + "]"
}

func taintText(t model.Taint) string {
	if t.Value != "" {
		return t.Key + "=" + t.Value + ":" + t.Effect
	}
	return t.Key + ":" + t.Effect
}
