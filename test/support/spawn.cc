#include "test/support/spawn.h"

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <grp.h>
#include <pwd.h>
#include <sstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <unistd.h>

namespace idempotency::test {

const passwd* unprivilegedUser() {
  return geteuid() == 0 ? getpwnam("postgres") : nullptr;
}

pid_t spawn(const std::vector<std::string>& command, const std::string& folder, int death_signal) {
  const passwd* const user = unprivilegedUser();
  const std::string log = folder + "/log";
  const pid_t child = fork();
  if (child != 0) {
    return child;
  }
  const int output = open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0666);
  dup2(output, 1);
  dup2(output, 2);
  if (user != nullptr &&
      (setgroups(0, nullptr) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)) {
    _exit(126);
  }
  setsid();
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (chdir(folder.c_str()) != 0) {
    _exit(126);
  }
  std::vector<char*> words;
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  execv(words[0], words.data());
  _exit(127);
}

std::string makeServerFolder() {
  std::string folder = "/tmp/idempotency-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    throw std::runtime_error("mkdtemp failed");
  }
  const passwd* const user = unprivilegedUser();
  if (user != nullptr && chown(folder.c_str(), user->pw_uid, user->pw_gid) != 0) {
    throw std::runtime_error("chown failed");
  }
  return folder;
}

std::string readFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace idempotency::test
