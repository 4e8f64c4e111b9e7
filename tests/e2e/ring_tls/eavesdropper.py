"""Somebody who listens on a network device: every TCP payload that passes, but those of ports that are left out.

Promises: what was sent before stop() has been heard, unless the kernel had to drop frames, which stop() says. Needs CAP_NET_RAW."""
import socket
import struct
import threading

SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23
SO_RCVBUFFORCE = 33
ETH_P_IP = 0x0800
ETHERNET_BYTES = 14


class Eavesdropper:
    def __init__(self, device, leave_out=()):
        self.leave_out = set(leave_out)
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)  # on the loopback device each frame goes out and comes in
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        self.socket.bind((device, 0))
        self.socket.settimeout(0.2)
        self.payloads = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def stop(self):
        """(all payloads, one after the other; how many frames were missed)."""
        self.stopping.set()
        self.thread.join()
        _, dropped = struct.unpack("II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self.socket.close()
        return b"\n".join(self.payloads), dropped

    def _listen(self):
        while True:
            try:
                self._hear(self.socket.recv(1 << 17))
            except TimeoutError:
                if self.stopping.is_set():
                    return

    def _hear(self, frame):
        packet = frame[ETHERNET_BYTES:]
        header_bytes, protocol = (packet[0] & 15) * 4, packet[9]
        if protocol != socket.IPPROTO_TCP:
            return
        segment = packet[header_bytes:struct.unpack("!H", packet[2:4])[0] or None]  # 0: longer than 16 bits can say
        ports, offset = struct.unpack("!HH", segment[:4]), (segment[12] >> 4) * 4
        if offset < len(segment) and not self.leave_out & set(ports):
            self.payloads.append(bytes(segment[offset:]))
