"""The open file of a segment."""

import io


class SegmentFile(io.FileIO):
    """Closes itself when nothing refers to it any more, neither the segment nor a file region."""

    def __del__(self) -> None:
        self.close()
