#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

struct passwd;

namespace idempotency::test {

// Who runs servers that refuse to run as root; null if this process is not root's.
const passwd* unprivilegedUser();

// Starts a program in `folder`, its output added to the file `log` there, as unprivilegedUser(). It
// ends with this process, however that ends: by `death_signal`.
pid_t spawn(const std::vector<std::string>& command, const std::string& folder, int death_signal);

// A folder of its own below /tmp that unprivilegedUser() owns. Its name is short: a socket's path
// has room for about 100 characters. Throws std::runtime_error.
std::string makeServerFolder();

std::string readFile(const std::string& path);

}  // namespace idempotency::test
