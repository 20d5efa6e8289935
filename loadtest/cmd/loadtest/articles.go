package main

import (
	"flag"
	"strings"

	"chatclub/loadtest/articles"
)

// playArticles plays the articles' experiments, or those whose names begin as was asked for.
func playArticles(args []string, s streams) (code int, err error) {
	fs := flag.NewFlagSet("articles", flag.ContinueOnError)
	seed := fs.Uint64("seed", 1, "of all that is random: equal seeds give equal figures")
	out := fs.String("out", "", "folder to write report.html and report.json into")
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	if err := parse(fs, args, "articles [NAME] [flags]", s.out); err != nil {
		return 0, err
	}
	list := articles.Find(name)
	if len(list) == 0 {
		return 0, usagef("articles: no experiment's name begins with %.40q; see loadtest list", name)
	}
	if err := writable(*out); err != nil {
		return 0, usageError{err}
	}
	r := articles.Play(list, *seed)
	r.Command = commandLine(fs, strings.Fields(name)...)
	return exitCode(r), write(s.out, r, *out)
}
