package docker

// Find gives the engine's address as a provider without a `host` would find it:
// DOCKER_HOST, else the first usual socket that exists. Without one it gives an
// error that names every place tried.
func Find(getenv func(string) string) (address string, err error) {
	env := hostEnvironment()
	env.getenv = getenv
	if address, origin := env.explicit(""); address != "" {
		return address, checkAddress(address, origin)
	}
	return env.search()
}
