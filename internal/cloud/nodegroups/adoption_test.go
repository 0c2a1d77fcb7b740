// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// wholeWorld is a world whose server tells the machines of all groups at once.
type wholeWorld struct{ *world }

func (w wholeWorld) AllMembers(ctx context.Context) (map[string][]nodegroups.Member, error) {
	out := map[string][]nodegroups.Member{}
	for name := range w.groups {
		list, err := w.Members(ctx, name)
		if err != nil {
			return nil, err
		}
		out[name] = list
	}
	return out, nil
}

func (w wholeWorld) provider() *nodegroups.Provider {
	return nodegroups.New(nodegroups.Settings{Name: "test", Server: w, Adopts: true, Timeout: 5 * time.Second, Records: w, Resources: state.New().Resources(), Clock: cloud.Wall{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// TestAdoption: groups have machines before, and somebody else has machines replaced, while claims ask and a claim is made for each machine that is
// nobody's. In the end each machine is one claim's, and no machine was ended but by its claim.
func TestAdoption(t *testing.T) {
	draws := 60
	if os.Getenv("DOVETAIL_SOAK") == "1" {
		draws = 2000
	}
	for seed := range draws {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := wholeWorld{newWorld(uint64(seed), 6, 20)}
				w.latency, w.boot = w.drawn(400*time.Millisecond), w.drawn(20*time.Second)
				if seed%3 == 2 {
					w.lose = 0.2
				}
				before := seed % 4
				for i := range before {
					w.request(fmt.Sprint("before-", i)) // so that the world knows of as many claims
				}
				w.mu.Lock()
				w.setTarget(w.groups["group-0"], int64(before))
				w.mu.Unlock()
				time.Sleep(time.Minute)
				p := w.provider()
				if seed%5 == 4 {
					w.launch(t, p, "early")
				}
				pace := []time.Duration{5 * time.Second, 10 * time.Second, 500 * time.Millisecond}[seed/6%3]
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() {
					for ctx.Err() == nil {
						if seed%2 == 0 { // else they are adopted long after it is known that others have vanished
							adoptAll(ctx, p)
						}
						_, _ = p.List(ctx)
						time.Sleep(w.drawn(pace))
					}
				})
				n := 1 + seed%5
				var asking sync.WaitGroup
				for i := range n {
					asking.Go(func() {
						time.Sleep(w.drawn(20 * time.Second))
						w.launch(t, p, string(rune('a'+i)))
					})
				}
				if seed/2%2 == 0 {
					asking.Wait()
				}
				for range seed % 3 {
					if have := w.machines(); len(have) > 0 {
						w.replace(have[int(w.drawn(time.Hour))%len(have)])
					}
					time.Sleep(w.drawn(10 * time.Second))
				}
				asking.Wait()
				time.Sleep(2 * time.Minute) // machines that have vanished are forgotten
				for range 3 {
					adoptAll(ctx, p)
					time.Sleep(10 * time.Second)
				}
				stop()
				running.Wait()
				time.Sleep(time.Minute)
				list, err := p.List(t.Context())
				if err != nil && w.lose == 0 {
					t.Fatal(err)
				}
				owner := map[string]string{}
				for _, i := range list {
					if owner[i.ProviderID] != "" {
						t.Errorf("machine %s is listed twice", i.ProviderID)
					}
					owner[i.ProviderID] = i.ClaimUID
				}
				for _, id := range w.machines() {
					if owner[id] == "" {
						t.Errorf("machine %s is nobody's", id)
					}
				}
				for _, line := range w.history {
					if strings.Contains(line, " End ") {
						t.Errorf("a machine was ended: %s", line)
					}
				}
				for _, s := range w.wrong {
					t.Error(s)
				}
				if t.Failed() {
					t.Logf("what happened:\n%s\nthe record: %s", strings.Join(w.history, "\n"), w.text)
				}
			})
		})
	}
}

// TestAdoptionOfComing: while machines are listed, a claim asks for one, and it comes. It is not offered for adoption, and a claim that was made for it
// all the same does not get it.
func TestAdoptionOfComing(t *testing.T) {
	for _, call := range []string{"Refresh", "Members"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // for calls that are still under way
				w := wholeWorld{newWorld(1, 5)}
				w.latency = 10 * time.Millisecond
				p := w.provider()
				first := w.launch(t, p, "first")
				r, asked := w.request("second"), false
				var ask func(string)
				ask = func(now string) {
					if now != call {
						w.before = ask
						return
					}
					asked = true
					if res := p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]; res.Err != nil || res.ProviderID != "" {
						t.Errorf("have %+v, want a machine that is to come", res)
					}
					time.Sleep(time.Second)
				}
				w.before = ask
				list, err := p.List(t.Context())
				if err != nil || !asked {
					t.Fatal(asked, err)
				}
				for _, i := range list {
					if i.ClaimUID == "" {
						t.Errorf("machine %s may be adopted", i.ProviderID)
					}
				}
				for _, id := range w.machines() {
					if id == first {
						continue
					}
					adopts := w.request("adopts")
					adopts.Annotations = model.Labels{dovetailv1alpha1.AnnotationAdopt: id}
					if res := p.Launch(t.Context(), []cloud.LaunchRequest{adopts})[0]; cloud.KindOf(res.Err) != cloud.NotFound {
						t.Errorf("have %+v, want that machine %s is another claim's", res, id)
					}
				}
				w.launch(t, p, "second")
				if have := w.machines(); len(have) != 2 {
					t.Errorf("there are machines %q, want two", have)
				}
			})
		})
	}
}

// givenUp returns a world with groups of these sizes at most, and its provider, of which a claim was given up before its machine had come.
func givenUp(t *testing.T, sizes ...int64) (wholeWorld, *nodegroups.Provider) {
	t.Helper()
	w := wholeWorld{newWorld(1, sizes...)}
	p := w.provider()
	if res := p.Launch(t.Context(), []cloud.LaunchRequest{w.request("late")})[0]; res.Err != nil || res.ProviderID != "" {
		t.Errorf("have %+v, want a machine that is to come", res)
	}
	time.Sleep(time.Minute)
	if err := p.Terminate(t.Context(), []string{"test-pending:late"})[0]; err != nil {
		t.Error(err)
	}
	return w, p
}

// TestLateMachine: a machine comes for a claim that is given up before it has it. Pods may be bound to its node, so it is not ended, but adopted.
func TestLateMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for calls that are still under way
		w, p := givenUp(t, 5)
		for range 3 {
			adoptAll(t.Context(), p)
			time.Sleep(time.Minute)
		}
		list, err := p.List(t.Context())
		if err != nil || len(list) != 1 || list[0].ClaimUID != "adopts-"+list[0].ProviderID || len(w.machines()) != 1 {
			t.Errorf("have %v of machines %q, %v; want the machine that came late, adopted", list, w.machines(), err)
		}
	})
}

// TestLateMachineOfNoPool: it is not adopted, as no pool has the group any more. It is listed as one that came late, in another process and without a class too,
// and can be ended then; another claim's machine is not, nor one that somebody else has asked for, nor one that the minimum size of its group keeps.
func TestLateMachineOfNoPool(t *testing.T) {
	for _, least := range []int64{0, 3} {
		t.Run(fmt.Sprint(least), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // for calls that are still under way
				w := wholeWorld{newWorld(1, 5)}
				p := w.provider()
				kept := w.launch(t, p, "kept")
				if res := p.Launch(t.Context(), []cloud.LaunchRequest{w.request("late")})[0]; res.Err != nil || res.ProviderID != "" {
					t.Errorf("have %+v, want a machine that is to come", res)
				}
				time.Sleep(time.Minute)
				if err := p.Terminate(t.Context(), []string{"test-pending:late"})[0]; err != nil {
					t.Error(err)
				}
				have := w.machines()
				w.grow("group-0", 1) // somebody else
				w.groups["group-0"].min = least
				p = w.provider()
				time.Sleep(time.Minute)
				if _, err := p.Offerings(t.Context(), nil, groupClass()); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Minute)
				list, err := p.List(t.Context())
				var late []string
				for _, i := range list {
					if !i.GivenUp.IsZero() {
						late = append(late, i.ProviderID)
					} else if i.ProviderID != kept {
						t.Errorf("machine %+v is listed", i)
					}
				}
				switch {
				case err != nil:
					t.Error(err)
				case least > 0 && len(late) > 0:
					t.Errorf("machines %q are listed as late, which the minimum keeps", late)
				case least == 0 && (len(late) != 1 || late[0] == kept || !slices.Contains(have, late[0])):
					t.Errorf("machines %q of %q are listed as late, want the one that is not %s", late, have, kept)
				case least == 0:
					for _, want := range []cloud.Kind{"", cloud.NotFound} {
						if err := p.Terminate(t.Context(), late)[0]; cloud.KindOf(err) != want {
							t.Errorf("have %v, want %q", err, want)
						}
					}
					if have := w.machines(); len(have) != 2 || slices.Contains(have, late[0]) {
						t.Errorf("there are machines %q, want two, not %q", have, late)
					}
				}
			})
		})
	}
}

// TestOldestIsLate: a claim is given up before its machine runs, and somebody else adds another. Of the two, the one that was asked for first is late.
func TestOldestIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for calls that are still under way
		w := wholeWorld{newWorld(1, 5)}
		w.boot, w.made = time.Minute, 8 // the tenth machine sorts before the ninth
		p := w.provider()
		if res := p.Launch(t.Context(), []cloud.LaunchRequest{w.request("late")})[0]; res.Err != nil || res.ProviderID != "" {
			t.Errorf("have %+v, want a machine that is to come", res)
		}
		if err := p.Terminate(t.Context(), []string{"test-pending:late"})[0]; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		w.grow("group-0", 1)
		time.Sleep(2 * time.Minute)
		var late []string
		for range 2 { // the first notes it
			if _, err := p.Offerings(t.Context(), nil, groupClass()); err != nil {
				t.Error(err)
			}
			list, err := p.List(t.Context())
			if err != nil {
				t.Error(err)
			}
			late = nil
			for _, i := range list {
				if !i.GivenUp.IsZero() {
					late = append(late, i.ProviderID)
				}
			}
		}
		if !slices.Equal(late, []string{"test://9"}) {
			t.Errorf("late are %q of %q, want the ninth", late, w.machines())
		}
	})
}

// TestLateMachineOfBadTemplate: the template of a group that a class selects becomes invalid. A machine of the group that came late is not given back until
// it is known again what it is.
func TestLateMachineOfBadTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for calls that are still under way
		w, p := givenUp(t, 5, 5)
		for _, bad := range []bool{true, false} {
			w.bad = map[string]bool{"group-0": bad}
			time.Sleep(10 * time.Minute) // templates are read every five
			if _, err := p.Offerings(t.Context(), nil, groupClass()); err != nil {
				t.Error(err)
			}
			list, err := p.List(t.Context())
			if err != nil || bad != (len(list) == 0) || !bad && (list[0].GivenUp.IsZero() || list[0].Class != "groups") {
				t.Errorf("the template is invalid: %t; have %+v, %v", bad, list, err)
			}
		}
	})
}

// TestHealthCheck: somebody else, as health checks of Cluster API do, has a machine replaced that is not healthy, and so do we, one after the other or at once: no group
// is to have more machines than there are claims, and a claim for the pods of the node gets the machine that comes in its place.
func TestHealthCheck(t *testing.T) {
	for _, order := range []string{"they alone", "they, then we", "we, then they", "at once"} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // for calls that are still under way
				w := wholeWorld{newWorld(1, 5)}
				w.latency, w.boot = 100*time.Millisecond, 20*time.Second
				p := w.provider()
				id := w.launch(t, p, "old")
				end := func(kinds ...cloud.Kind) {
					if err := p.Terminate(t.Context(), []string{id})[0]; !slices.Contains(kinds, cloud.KindOf(err)) {
						t.Errorf("have %v, want one of %q", err, kinds)
					}
				}
				switch order {
				case "they, then we":
					w.replace(id)
					end(cloud.NotFound)
				case "we, then they":
					end("")
					w.replace(id)
				case "at once":
					w.before = func(string) { w.replace(id) }
					end("", cloud.NotFound)
				default:
					w.replace(id)
				}
				delete(w.claims, "old") // nothing is to be launched beside its replacement
				got := w.launch(t, p, "new")
				time.Sleep(2 * time.Minute)
				for range 3 {
					adoptAll(t.Context(), p)
					time.Sleep(time.Minute)
				}
				list, err := p.List(t.Context())
				if err != nil || len(list) != 1 || list[0].ProviderID != got || list[0].ClaimUID != "new" || got == id {
					t.Errorf("have %+v, %v; want one machine, not %s, of the new claim", list, err, id)
				}
				for _, s := range w.wrong {
					t.Error(s)
				}
			})
		})
	}
}

// TestGroupMissingOnce: a group, and its machines with it, is missing from an answer while a machine is to come for a claim that was given up. That is not
// forgotten: the machine is told apart when it comes.
func TestGroupMissingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for calls that are still under way
		w := wholeWorld{newWorld(1, 5, 5)}
		w.boot = 2 * time.Minute
		p := w.provider()
		if res := p.Launch(t.Context(), []cloud.LaunchRequest{w.request("late")})[0]; res.Err != nil || res.ProviderID != "" {
			t.Errorf("have %+v, want a machine that is to come", res)
		}
		if err := p.Terminate(t.Context(), []string{"test-pending:late"})[0]; err != nil {
			t.Error(err)
		}
		list := func() []model.Instance {
			_, _ = p.Offerings(t.Context(), nil, groupClass()) // from time to time, as the controller does
			list, err := p.List(t.Context())
			if err != nil {
				t.Error(err)
			}
			return list
		}
		w.mu.Lock()
		group := w.groups["group-0"]
		delete(w.groups, "group-0")
		w.mu.Unlock()
		time.Sleep(15 * time.Second) // until what was read is read anew
		list()
		w.mu.Lock()
		w.groups["group-0"] = group
		w.mu.Unlock()
		for range 4 {
			time.Sleep(time.Minute)
			list()
		}
		if now := list(); len(now) != 1 || now[0].GivenUp.IsZero() {
			t.Errorf("the list is %+v, want the machine that came late; the record: %s", now, w.text)
		}
	})
}

// TestForget: while a provider runs, another process forgets its machines but one. They stay, are those of no claim, can be adopted, and are not ended
// with their claims, which get no other machine.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for calls that are still under way
		w := wholeWorld{newWorld(1, 5, 5)}
		w.latency = 10 * time.Millisecond
		p := w.provider()
		kept := w.launch(t, p, "kept", "type-group-0")
		forgotten := []string{w.launch(t, p, "a", "type-group-0"), w.launch(t, p, "b", "type-group-1")}
		if err := nodegroups.Forget(t.Context(), w, forgotten); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for i, id := range forgotten {
			if err := p.Terminate(t.Context(), []string{id})[0]; cloud.KindOf(err) != cloud.NotFound {
				t.Errorf("have %v, want that no claim has machine %s", err, id)
			}
			if res := p.Launch(t.Context(), []cloud.LaunchRequest{w.request([]string{"a", "b"}[i])})[0]; cloud.KindOf(res.Err) != cloud.NotFound {
				t.Errorf("have %+v, want that the claim gets no other machine", res)
			}
		}
		adoptAll(t.Context(), p)
		list, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		owner := map[string]string{}
		for _, i := range list {
			owner[i.ProviderID] = i.ClaimUID
		}
		if have := w.machines(); len(have) != 3 || owner[kept] != "kept" || owner[forgotten[0]] != "adopts-"+forgotten[0] || owner[forgotten[1]] != "adopts-"+forgotten[1] {
			t.Errorf("machines %q have the claims %v", have, owner)
		}
	})
}

// adoptAll makes a claim for each machine that is nobody's.
func adoptAll(ctx context.Context, p *nodegroups.Provider) {
	_, _ = p.Offerings(ctx, nil, groupClass()) // from time to time, as the controller does
	list, err := p.List(ctx)
	if err != nil {
		return // again in a moment
	}
	for _, i := range list {
		if i.ClaimUID == "" && i.Class != "" {
			p.Launch(ctx, []cloud.LaunchRequest{{ClaimName: "adopts-" + i.ProviderID, ClaimUID: "adopts-" + i.ProviderID, ClaimCreated: time.Now(), Class: groupClass(),
				Annotations: model.Labels{dovetailv1alpha1.AnnotationAdopt: i.ProviderID}}})
		}
	}
}
