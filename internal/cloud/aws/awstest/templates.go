// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

// maxUserData is what EC2 takes, before base64.
const maxUserData = 16384

var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

func (t *tx) createLaunchTemplate(in *shapes.EC2CreateLaunchTemplateRequest) (*shapes.EC2CreateLaunchTemplateResult, error) {
	if !templateName.MatchString(in.LaunchTemplateName) {
		return nil, wire.Refuse("InvalidLaunchTemplateName.MalformedException", "Launch template name %q: 3 to 128 letters, digits and ().-/_", in.LaunchTemplateName)
	}
	if in.LaunchTemplateData == nil {
		return nil, wire.Refuse("MissingParameter", "The request must contain the parameter LaunchTemplateData")
	}
	tags, err := specified(in.TagSpecifications, "launch-template")
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(in.LaunchTemplateData.UserData)
	if err != nil {
		return nil, wire.Refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(data) > maxUserData {
		return nil, wire.Refuse("InvalidParameterValue", "User data is limited to %d bytes", maxUserData)
	}
	for _, s := range in.LaunchTemplateData.TagSpecifications {
		if err := checkTags(s.Tags); err != nil {
			return nil, err
		}
	}
	asked := digest(in)
	if in.ClientToken != "" {
		for _, have := range t.templates.sorted() {
			if have.Token == in.ClientToken {
				if have.Digest != asked {
					return nil, wire.Refuse("IdempotentParameterMismatch", "The client token %s was used with other parameters", in.ClientToken)
				}
				return &shapes.EC2CreateLaunchTemplateResult{LaunchTemplate: t.launchTemplate(have)}, nil
			}
		}
	}
	if t.templateNamed(in.LaunchTemplateName) != nil {
		return nil, wire.Refuse("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	id := t.freshID("lt")
	t.templates.put(t, id, template{
		ID: id, Name: in.LaunchTemplateName, Created: t.now, Token: in.ClientToken, Digest: asked, Tags: tagMap(tags),
		Versions: []templateVersion{{Description: in.VersionDescription, Created: t.now, Data: *in.LaunchTemplateData}},
	})
	return &shapes.EC2CreateLaunchTemplateResult{LaunchTemplate: t.launchTemplate(t.templates.items[id])}, nil
}

func (c *Cloud) launchTemplate(have *template) *shapes.EC2LaunchTemplate {
	n := new(int64(len(have.Versions)))
	return &shapes.EC2LaunchTemplate{
		LaunchTemplateId: have.ID, LaunchTemplateName: have.Name, CreateTime: pointer(have.Created), CreatedBy: c.arn("iam", "role/dovetail"),
		DefaultVersionNumber: n, LatestVersionNumber: n, Tags: tagList(have.Tags),
	}
}

func (c *Cloud) templateNamed(name string) *template {
	for _, have := range c.templates.items {
		if have.Name == name {
			return have
		}
	}
	return nil
}

// findTemplate finds a template by id or name, and says what AWS says when there is none.
func (c *Cloud) findTemplate(id, name string) (*template, error) {
	switch {
	case id != "" && name != "":
		return nil, wire.Refuse("InvalidParameterCombination", "Give LaunchTemplateId or LaunchTemplateName, not both")
	case id != "":
		if have := c.templates.items[id]; have != nil {
			return have, nil
		}
		return nil, wire.Refuse("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	case name != "":
		if have := c.templateNamed(name); have != nil {
			return have, nil
		}
		return nil, wire.Refuse("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
	}
	return nil, wire.Refuse("MissingParameter", "The request must contain LaunchTemplateId or LaunchTemplateName")
}

// version finds a version by number, $Default or $Latest; empty is the default one.
func (have *template) version(v string) (int, error) {
	if v == "" || v == "$Default" || v == "$Latest" {
		return len(have.Versions), nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > len(have.Versions) {
		return 0, wire.Refuse("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s of %s", v, have.ID)
	}
	return n, nil
}

func (t *tx) describeLaunchTemplates(in *shapes.EC2DescribeLaunchTemplatesRequest) (*shapes.EC2DescribeLaunchTemplatesResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	for _, id := range in.LaunchTemplateIds {
		if _, err := t.findTemplate(id, ""); err != nil {
			return nil, err
		}
	}
	for _, name := range in.LaunchTemplateNames {
		if _, err := t.findTemplate("", name); err != nil {
			return nil, err
		}
	}
	var all []*template
	for _, have := range t.templates.sorted() {
		if len(in.LaunchTemplateIds)+len(in.LaunchTemplateNames) > 0 && !slices.Contains(in.LaunchTemplateIds, have.ID) && !slices.Contains(in.LaunchTemplateNames, have.Name) {
			continue
		}
		pass, err := filtered(in.Filters, have.Tags, func(name string) ([]string, bool) {
			switch name {
			case "launch-template-name":
				return []string{have.Name}, true
			case "create-time":
				return []string{have.Created.Format("2006-01-02T15:04:05.000Z")}, true
			}
			return nil, false
		})
		if err != nil {
			return nil, err
		}
		if pass {
			all = append(all, have)
		}
	}
	some, next := page(all, func(have *template) string { return have.ID }, in.NextToken, in.MaxResults, 200)
	out := &shapes.EC2DescribeLaunchTemplatesResult{NextToken: next}
	for _, have := range some {
		out.LaunchTemplates = append(out.LaunchTemplates, *t.launchTemplate(have))
	}
	return out, nil
}

func (t *tx) describeLaunchTemplateVersions(in *shapes.EC2DescribeLaunchTemplateVersionsRequest) (*shapes.EC2DescribeLaunchTemplateVersionsResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	if len(in.Filters) > 0 || in.MinVersion != "" || in.MaxVersion != "" {
		return nil, wire.Refuse("UnsupportedOperation", "the simulated DescribeLaunchTemplateVersions takes versions only, neither filters nor ranges")
	}
	have, err := t.findTemplate(in.LaunchTemplateId, in.LaunchTemplateName)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, v := range in.Versions {
		n, err := have.version(v)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	if len(in.Versions) == 0 {
		for n := range have.Versions {
			numbers = append(numbers, n+1)
		}
	}
	out := &shapes.EC2DescribeLaunchTemplateVersionsResult{}
	for _, n := range numbers {
		v := have.Versions[n-1]
		data := convert[shapes.EC2ResponseLaunchTemplateData](v.Data)
		if name := v.Data.ImageId; is(in.ResolveAlias) && len(name) > 12 && name[:12] == "resolve:ssm:" {
			if image := t.parameter(name[12:]); image != nil {
				data.ImageId = image.ID
			}
		}
		out.LaunchTemplateVersions = append(out.LaunchTemplateVersions, shapes.EC2LaunchTemplateVersion{
			LaunchTemplateId: have.ID, LaunchTemplateName: have.Name, VersionNumber: new(int64(n)), VersionDescription: v.Description,
			CreateTime: pointer(v.Created), CreatedBy: t.arn("iam", "role/dovetail"), DefaultVersion: new(n == len(have.Versions)), LaunchTemplateData: &data,
		})
	}
	return out, nil
}

func (t *tx) deleteLaunchTemplate(in *shapes.EC2DeleteLaunchTemplateRequest) (*shapes.EC2DeleteLaunchTemplateResult, error) {
	have, err := t.findTemplate(in.LaunchTemplateId, in.LaunchTemplateName)
	if err != nil {
		return nil, err
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	out := &shapes.EC2DeleteLaunchTemplateResult{LaunchTemplate: t.launchTemplate(have)}
	t.templates.drop(t, have.ID)
	return out, nil
}

// convert makes one shape of another with members of the same names.
func convert[T any](from any) T {
	var to T
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, &to)
	}
	if err != nil {
		panic(err) // the shapes are those of one service model
	}
	return to
}
