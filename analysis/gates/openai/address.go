package openai

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"quantscope/analysis/gates/chat"
)

// address is where a server is.
type address struct {
	root  string // scheme, host and path, without /v1 and without a slash at its end
	host  string
	shown string // for messages
}

// parseAddress reads a base URL. What may hold a key, user information and a query,
// is refused and not repeated.
func parseAddress(base string) (address, error) {
	refuse := func(at, reason string) (address, error) {
		return address{}, &chat.Error{At: at, Kind: chat.Refused, Reason: reason}
	}
	s := strings.TrimSpace(base)
	if !strings.Contains(s, "://") && s != "" {
		s = "http://" + s // localhost:8000
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Hostname() == "" {
		return refuse("server", "its address is no URL such as http://localhost:8000")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return refuse(u.Host, fmt.Sprintf("scheme %q is not known, http and https are", u.Scheme))
	}
	if u.User != nil {
		return refuse(u.Host, "a key or a name in the URL is refused: a key comes from the environment")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return refuse(u.Host, "a query or a fragment in the URL is refused")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	for _, end := range []string{"/chat/completions", "/completions", "/models"} {
		path = strings.TrimSuffix(path, end)
	}
	path = strings.TrimSuffix(path, "/v1")
	root := u.Scheme + "://" + u.Host + strings.TrimRight(path, "/")
	return address{root: root, host: u.Host, shown: root}, nil
}

func (a address) url(path string) string { return a.root + path }

// keyFrom takes the key from the environment. Its value is in no error.
func keyFrom(name string) (string, error) {
	names := []string{name}
	if name == "" {
		names = []string{"QUANTSCOPE_API_KEY", "OPENAI_API_KEY"}
	}
	for _, n := range names {
		key := os.Getenv(n)
		if key == "" {
			continue
		}
		for i := range len(key) {
			if key[i] <= ' ' || key[i] > '~' {
				return "", fmt.Errorf("the key in %s has a character that no header can have", n)
			}
		}
		return key, nil
	}
	if name != "" {
		return "", fmt.Errorf("no key: the environment variable %s is not set", name)
	}
	return "", nil
}
