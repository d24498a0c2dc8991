// SPDX-License-Identifier: Apache-2.0
#include "io/file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "io/tensor.hpp"

namespace carat::cli {
namespace {

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }
    // close() reports delayed write errors, so its result counts.
    int close() {
        const int result = ::close(fd_);
        fd_ = -1;
        return result;
    }

  private:
    int fd_;
};

Status io_error(const char* action, const std::string& path, int error, const char* fix) {
    return fail(CARAT_IO_ERROR, "cannot {} '{}': {}; {}", action, printable(path), std::strerror(error), fix);
}

Status write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), size_t(1) << 30));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return io_error("write", path, errno, "free some space or choose another place");
        bytes = bytes.subspan(size_t(written));
    }
    return {};
}

Status write_parts(Descriptor& fd, std::span<const std::span<const std::byte>> parts, const std::string& path) {
    for (std::span<const std::byte> part : parts) CARAT_TRY(write_all(fd.get(), part, path));
    return {};
}

Status write_directly(const std::string& path, std::span<const std::span<const std::byte>> parts) {
    Descriptor fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (fd.get() < 0) return io_error("write", path, errno, "choose another output file");
    return write_parts(fd, parts, path);
}

// The file that a chain of links ends in, or the path itself where there is none yet.
std::string resolved(const std::string& path) {
    char* real = ::realpath(path.c_str(), nullptr);
    if (!real) return path;
    std::string out = real;
    std::free(real);
    return out;
}

Status fill_temporary(Descriptor& fd, std::span<const std::span<const std::byte>> parts, const std::string& path) {
    CARAT_TRY(write_parts(fd, parts, path));
    if (::fsync(fd.get()) != 0 || fd.close() != 0) {
        return io_error("write", path, errno, "free some space or choose another place");
    }
    return {};
}

// A new file beside `path`, with the permissions that the umask gives a new file.
int create_temporary(const std::string& path, std::string* name) {
    static std::atomic<int> counter = 0;
    for (int attempt = 0; attempt < 100; ++attempt) {
        *name = fmt::format("{}.tmp{}-{}", path, ::getpid(), counter++);
        const int fd = ::open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
    // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
    Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.get() < 0) return io_error("read", path, errno, "check the path and its permissions");
    struct stat info = {};
    if (::fstat(fd.get(), &info) != 0) return io_error("read", path, errno, "check the path and its permissions");
    if (!S_ISREG(info.st_mode)) {
        return fail(CARAT_IO_ERROR, "'{}' is {}, not a regular file: give the path of a .npy or .safetensors file",
                    printable(path), S_ISDIR(info.st_mode) ? "a directory" : "a device or pipe");
    }
    if (info.st_size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(nullptr, 0));
    void* data = ::mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (data == MAP_FAILED) return io_error("map", path, errno, "close other programs or use a smaller file");
    return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size_t(info.st_size)));
}

MappedFile::~MappedFile() {
    if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

Status write_file(const std::string& given, std::span<const std::span<const std::byte>> parts) {
    const std::string path = resolved(given);
    struct stat info = {};
    const bool exists = ::stat(path.c_str(), &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) {
        return fail(CARAT_IO_ERROR, "cannot write '{}': it is a directory; name a file in it", printable(given));
    }
    if (exists && !S_ISREG(info.st_mode)) return write_directly(path, parts);
    if (exists && ::access(path.c_str(), W_OK) != 0) {
        return io_error("write", given, errno, "change its permissions or choose another output file");
    }
    std::string temporary;
    Descriptor fd(create_temporary(path, &temporary));
    if (fd.get() < 0)
        return io_error("create a file beside", given, errno, "check that its directory exists and is yours");
    if (exists && ::fchmod(fd.get(), info.st_mode & 0777) != 0) {
        ::unlink(temporary.c_str());
        return io_error("write", given, errno, "choose another output file");
    }
    Status status = fill_temporary(fd, parts, given);
    if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
        status = io_error("write", given, errno, "choose another output file");
    }
    if (!status.ok()) ::unlink(temporary.c_str());
    return status;
}

}  // namespace carat::cli
