package docker

// Find gives the engine's address as a provider without settings would find it,
// or an error that names every place tried.
func Find(getenv func(string) string) (address string, err error) {
	env := hostEnvironment()
	env.getenv = getenv
	p, err := env.chosen(Settings{})
	if err == nil && p.address == "" {
		p, err = env.search(Settings{})
	}
	return p.address, err
}
