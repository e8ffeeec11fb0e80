"""G7: any allocation may fail, once or from then on. Nothing but "could not" may come of it."""
import _fault

if __name__ == "__main__":
    _fault.sweep_calls("alloc", "SW_FAULT_ALLOC", ["", ",sticky"], {2})
