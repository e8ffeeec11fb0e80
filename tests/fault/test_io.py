"""G8: any I/O call may fail, once (a bad sector) or from then on (a disk that is gone or full)."""
import _fault

if __name__ == "__main__":
    _fault.sweep_calls("io", "SW_FAULT_IO", ["", ",sticky", ",sticky,ENOSPC"], _fault.FAILED)
