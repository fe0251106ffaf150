/* See listener.h. */
#include "tests/fuzz/shared/listener.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "tests/fuzz/fuzz.h"

int listener_open(Listener *out)
{
    socklen_t size = sizeof out->socket;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    out->socket =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr *to = (struct sockaddr *)&out->socket;
    PROMISE(s >= 0 && bind(s, to, size) == 0 && listen(s, 16) == 0 &&
                getsockname(s, to, &size) == 0,
            "no port");
    snprintf(out->address, sizeof out->address, "tcp://k@127.0.0.1:%u",
             ntohs(out->socket.sin_port));
    return s;
}
