"""A piece of wire between a node and the bridge that can alter a byte on the way.

Promises: frames pass whole and in order, in both directions; after alter_next() one byte of one TCP payload that the node sends
is flipped, once, and TCP does not find it, so that only the receiver's own checks can. For that no checksum need be mended: on
virtual links the sender's kernel leaves it to the end of the way, and says so beside the frame (PACKET_VNET_HDR); a frame that
has its checksum already is let alone."""
import errno
import select
import socket
import struct
import threading

from network import namespaces

SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 263, 15, 23
ETH_P_ALL, ETH_P_IP = 3, 0x0800
SO_RCVBUFFORCE = 33
HEADER_BYTES, NEEDS_CHECKSUM = 10, 1  # struct virtio_net_hdr; its first byte has flags
ETHERNET_BYTES = 14
FRAME_BYTES_MAX = 1 << 17


def insert(node):
    """Puts a wire between the node's link and the bridge."""
    near, far = f"near-{node.link}", f"far-{node.link}"
    namespaces.run("ip", "link", "set", node.link, "nomaster", "arp", "off", "promisc", "on")
    namespaces.run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
    node.links.append(near)
    namespaces.run("ip", "link", "set", near, "arp", "off", "promisc", "on", "up")
    namespaces.run("ip", "link", "set", far, "master", namespaces.Network.bridge, "up")
    return Wire(node.link, near)


class Wire:
    def __init__(self, node_side, bridge_side):
        self.ends = [raw_socket(node_side), raw_socket(bridge_side)]
        self.wanted = None  # (port of the service, whether to it, least payload) of what is altered next
        self.altered = threading.Event()
        threading.Thread(target=self._pass_frames, daemon=True).start()

    def alter_next(self, service_port, to_service=False, at_least=1):
        """The next payload of at_least bytes, among what goes to the service or among all else."""
        self.wanted = (service_port, to_service, at_least)

    def _pass_frames(self):
        with self.ends[0], self.ends[1]:
            try:
                while True:
                    for end in select.select(self.ends, [], [])[0]:
                        self._pass(bytearray(end.recv(FRAME_BYTES_MAX)), end is self.ends[0])
            except OSError as error:
                if error.errno not in (errno.ENETDOWN, errno.ENODEV, errno.ENXIO):
                    raise
                # The links were deleted: the node is gone.

    def _pass(self, frame, leaves_node):
        if leaves_node and self.wanted is not None and alter(frame, *self.wanted):
            self.wanted = None
            self.altered.set()
        try:
            self.ends[1 if leaves_node else 0].send(frame)
        except OSError as error:
            if error.errno not in (errno.ENOBUFS, errno.ENETDOWN):
                raise
            # The queue is full, or the link down: the frame is lost, as frames are.


def raw_socket(device):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    try:
        end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
    except PermissionError:
        pass  # in a user namespace: a smaller buffer loses a frame now and then, and TCP sends it again
    end.bind((device, 0))
    return end


def alter(frame, service_port, to_service, at_least):
    """Flips the last byte of the frame's payload, where it is one that is wanted."""
    ip = HEADER_BYTES + ETHERNET_BYTES
    is_ip = len(frame) >= ip + 40 and struct.unpack_from("!H", frame, ip - 2)[0] == ETH_P_IP
    if not is_ip or frame[ip + 9] != socket.IPPROTO_TCP or not frame[0] & NEEDS_CHECKSUM:
        return False
    tcp = ip + 4 * (frame[ip] & 15)
    end = ip + struct.unpack_from("!H", frame, ip + 2)[0]
    payload = tcp + 4 * (frame[tcp + 12] >> 4)
    about_service = service_port in struct.unpack_from("!HH", frame, tcp)
    if about_service != to_service or end - payload < at_least or end > len(frame):
        return False
    frame[end - 1] ^= 0x10
    return True
