# A stranger in the hotspot who sends nonsense to a name server: `names.pl ADDRESS SEED`. Prints the number of packets.
use strict;
use IO::Socket::INET;
use Socket qw(inet_aton);

my ($server, $seed) = @ARGV;
srand($seed);
my $udp = IO::Socket::INET->new(PeerAddr => $server, PeerPort => 53, Proto => "udp") or die "no socket: $!";
my $sent = 0;

# A question: its header's counts, and the bytes behind it.
sub question { return pack("n6", int(rand(65536)), 0x0100, @_[0 .. 3]) . $_[4] }

my $end = pack("n2", 1, 1);
my @kinds = (
  sub { join "", map { chr(int(rand(256))) } 1 .. 1 + int(rand(512)) },    # any bytes
  sub { question(1, 0, 0, 0, "\xc0\x0c$end") },                            # a name that points at itself
  sub { question(1, 0, 0, 0, "\xc0\xff$end") },                            # a name that points outside
  sub { question(1, 0, 0, 0, ("\x3f" . "a" x 63) x 4 . "\0$end") },        # a name of 256 bytes
  sub { question(1, 0, 0, 0, "\x3fshort") },                               # a label that is longer than the packet
  sub { question(65535, 65535, 65535, 65535, "\1a\0$end") },               # counts without records
  sub { question(1, 0, 0, 1, "\1a\0$end\0" . pack("n2Nn", 41, 4096, 0, 65535)) },    # options that are not there
  sub { question(1, 0, 0, 0, "\5a\"<'\\\3\n\r\0\0$end") },                 # a name of control bytes
  sub { question(1, 0, 0, 0, join("", map { "\1" . chr(97 + int(rand(26))) } 1 .. 120) . "\0" . pack("n2", 255, 255)) },
);
for (1 .. 20000) {
  my $packet = $kinds[int(rand(@kinds))]->();
  $sent++ if defined $udp->send(substr($packet, 0, 1400));
}

# Connections that say a length and no more.
my @held;
for (1 .. 40) {
  my $tcp = IO::Socket::INET->new(PeerAddr => $server, PeerPort => 53, Proto => "tcp", Timeout => 2) or next;
  print $tcp pack("n", 65535) . "x" x 100;
  push @held, $tcp;
}
print "$sent packets and ", scalar(@held), " connections\n";
