# needs: perl
# debian: perl
# about: hashes, sorting and regular expressions over 60,000 lines
# stresses: strings and hash entries of a few dozen bytes; strings that grow by realloc
# not shown: threads: there is one
source "$SUPPORT"
words 60000 3 >text
# work:
source "$SUPPORT"
perl -e '
    use strict; use warnings;
    my (%count, %by, @all);
    open my $in, "<", "text" or die;
    while (<$in>) {
        chomp;
        my @field = split / /;
        $count{$_}++ for split /\W+/;
        push @{ $by{$field[1]} }, { number => $field[0], text => $_ };
        push @all, $_;
    }
    print scalar(keys %count), " ", scalar(keys %by), "\n";
    for my $key (sort keys %by) {
        my @sorted = sort { $a->{number} <=> $b->{number} } @{ $by{$key} };
        next unless @sorted > 8;
        (my $changed = $sorted[0]{text}) =~ s/(\d)(\d)/$2$1/g;
        print "$key $changed ", scalar(@sorted), "\n";
    }
    my $joined = join "\n", map { scalar reverse } sort { $b cmp $a } @all;
    print length($joined), " ", unpack("%32C*", $joined), "\n";
    my $grown = "";
    $grown .= substr($joined, $_ * 7, 100) for 1 .. 50000;
    print length($grown), " ", unpack("%32C*", $grown), "\n";
    if (my $child = fork) { waitpid $child, 0; print "child ", $? >> 8, "\n" } else { %by = (); @all = (); exit 3 }
'
